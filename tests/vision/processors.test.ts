/** Images against what Pillow-based processors of Hugging Face transformers made of them (see record_processors.py). */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { loadDecoder } from "../../images/src/decode-image.ts";
import { PixelBudget } from "../../images/src/pixel-budget.ts";
import { processJob } from "../../images/src/process-job.ts";
import { type ImageProcessing, parseProcessor } from "../../images/src/processor-config.ts";
import type { Json } from "../../images/src/processor-fields.ts";

interface Recorded {
  readonly name: string;
  readonly description: Readonly<Record<string, Json>>;
  readonly outputs: readonly { readonly file: string; readonly shape: readonly number[]; readonly pixels: string }[];
}

/** In units of the bytes of an image. Models would bear 2; so far nothing differs at all. */
const TOLERANCE = 0.01;

const recorded: Recorded[] = JSON.parse(
  gunzipSync(readFileSync(new URL("processors.json.gz", import.meta.url))).toString("utf8"),
);
const tools = { decode: await loadDecoder(), budget: new PixelBudget(1 << 24) };

/** How much one byte more changes a pixel at most. */
function largestStep({ values }: ImageProcessing): number {
  return Math.max(...values.map((table) => (table[1] ?? 0) - (table[0] ?? 0)));
}

function floats(base64: string): Float32Array {
  return new Float32Array(Uint8Array.from(Buffer.from(base64, "base64")).buffer);
}

/** Fields that a description needs where its processor's own defaults are meant. */
const ESSENTIALS: Readonly<Record<string, readonly string[]>> = {
  clip: ["size", "crop_size"],
  vit: ["size"],
  siglip: ["size"],
  blip: ["size"],
  "qwen2-vl": ["patch_size", "merge_size", "min_pixels", "max_pixels", "size"],
};

for (const [name, kept] of Object.entries(ESSENTIALS)) {
  test(`the processor '${name}' is the same from a description that leaves its defaults out`, () => {
    const { description = {} } = recorded.find((each) => each.name === name) ?? {};
    const whole = parseProcessor(new Map(Object.entries(description)), name);
    const wanted = ["image_processor_type", ...kept];
    const short = new Map(Object.entries(description).filter(([key]) => wanted.includes(key)));
    assert.ok(short.size < Object.keys(description).length);
    assert.deepEqual(parseProcessor(short, name), whole);
  });
}

for (const { name, description, outputs } of recorded) {
  test(`images become what the processor '${name}' made of them, within ${TOLERANCE}/255`, async () => {
    assert.ok(outputs.length > 0);
    const processing = parseProcessor(new Map(Object.entries(description)), name);
    for (const { file, shape, pixels } of outputs) {
      const bytes = Uint8Array.from(readFileSync(new URL(`images/${file}`, import.meta.url)));
      const data = { processing, pixelType: "FP32", maxPixels: 1 << 24, maxPatches: 1 << 12 } as const;
      const result = await processJob(data, tools, [bytes]);
      assert.deepEqual(result.shape, shape, file);
      const [got, expected] = [new Float32Array(result.data.buffer), floats(pixels)];
      assert.equal(got.length, expected.length, file);
      const most = got.reduce((sum, value, i) => Math.max(sum, Math.abs(value - (expected[i] ?? Number.NaN))), 0);
      assert.ok(most / largestStep(processing) <= TOLERANCE, `${file}: ${most / largestStep(processing)}/255`);
    }
  });
}
