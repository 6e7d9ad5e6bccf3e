import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { DecoderConfig } from "./decoder-config.ts";
import { parseDecoderConfig } from "./parse-decoder-config.ts";
import { hasThreeAxes } from "./rope-axes.ts";

const QWEN2_VL: Record<string, unknown> = JSON.parse(
  readFileSync(new URL("../../../../tests/vision/qwen2-vl/config.json", import.meta.url), "utf8"),
);
const TEXT = QWEN2_VL.text_config as Record<string, unknown>;

function parse(config: unknown): DecoderConfig {
  return parseDecoderConfig({ config, generation: undefined, at: { config: "config.json", generation: "" } }).config;
}

/** As the files on the hub have it: no section for the text, and the older name of the positions. */
function olderFile(scaling: unknown): Record<string, unknown> {
  const { rope_parameters: _, ...text } = TEXT;
  const { architectures } = QWEN2_VL;
  return { ...text, architectures, model_type: "qwen2_vl", rope_theta: 1000, rope_scaling: scaling };
}

test("both spellings of the sections make a model with three axes", () => {
  const newer = parse(QWEN2_VL);
  assert.deepEqual(newer.ropes[0]?.sections, [2, 3, 3]);
  assert.deepEqual(parse(olderFile({ type: "mrope", mrope_section: [2, 3, 3] })).ropes, newer.ropes);
  assert.equal(hasThreeAxes(newer), true);
});

test("without sections there is one axis", () => {
  const plain = parse(olderFile(null));
  assert.equal(hasThreeAxes(plain), false);
});

test("with sections that take turns there is one axis: text is served, and images are not", () => {
  const interleaved = parse(olderFile({ type: "mrope", mrope_section: [2, 3, 3], mrope_interleaved: true }));
  assert.equal(hasThreeAxes(interleaved), false);
  assert.equal(interleaved.ropes[0]?.sections, undefined);
});

for (const { name, scaling, expected } of [
  {
    name: "sections of another sum",
    scaling: { type: "mrope", mrope_section: [2, 3, 4] },
    expected: /mrope_section: expected three whole numbers with the sum 8, got \[2,3,4\]/,
  },
  {
    name: "two sections",
    scaling: { type: "mrope", mrope_section: [4, 4] },
    expected: /expected 3 numbers above zero/,
  },
]) {
  test(`a config with ${name} is refused`, () => {
    assert.throws(() => parse(olderFile(scaling)), expected);
  });
}
