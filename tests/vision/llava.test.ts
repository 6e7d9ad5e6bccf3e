/** A tiny LLaVA in its Hugging Face folder: its vision encoder as ONNX and its language model, against transformers (see record_llava.py). */
import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { startServerProcess } from "../support/server-process.ts";
import {
  assertClose,
  createVisionRepository,
  infer,
  io,
  type Numbers,
  parameter,
  type Wire,
} from "../support/vision-language-model.ts";
import { generate, runNode } from "../support/vision-server.ts";

const NEREID = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const IMAGES = new URL("images/", import.meta.url);
const LLAVA = fileURLToPath(new URL("llava", import.meta.url));
const TOLERANCE = 1e-4;
const VOCABULARY = 96;
const IMAGE = 90;

interface Recorded {
  readonly pixels: Numbers;
  readonly tokens: Numbers;
  readonly prompts: readonly (readonly number[])[];
  readonly ids: readonly (readonly number[])[];
}

const FILES = {
  "vision_encoder/config.pbtxt": `name: "vision_encoder" backend: "onnxruntime" max_batch_size: 4
    input [ ${io("pixel_values", "FP32", "3, 12, 12")} ] output [ ${io("visual_tokens", "FP32", "9, 64")} ]`,
  "llm/config.pbtxt": `name: "llm" backend: "llm" max_batch_size: 4
    input [ ${io("input_ids", "INT32", "-1", "allow_ragged_batch: true")}, ${io("input_lengths", "INT32", "1", "reshape: { shape: [ ] }")},
            ${io("request_output_len", "INT32", "1")}, ${io("prompt_embedding_table", "FP32", "-1, -1", "optional: true")} ]
    output [ ${io("output_ids", "INT32", "-1, -1")}, ${io("sequence_length", "INT32", "-1")} ]
    ${parameter("gpt_model_path", LLAVA)} ${parameter("weight_type", "f32")} ${parameter("exclude_input_in_output", "true")}`,
};

test("visual tokens and answers of a LLaVA folder are those of transformers", { timeout: 600_000 }, async () => {
  const { pixels, tokens, prompts, ids }: Recorded = JSON.parse(await readFile(join(LLAVA, "expected.json"), "utf8"));
  await using repository = await createVisionRepository(LLAVA, FILES);
  const flags = ["--model-control-mode=explicit", "--load-model=vision_encoder", "--load-model=llm"];
  const server = await startServerProcess({ repositories: [repository.path], flags });
  try {
    const seen = await infer(server, "vision_encoder", [{ name: "pixel_values", datatype: "FP32", ...pixels }]);
    assertClose(seen.get("visual_tokens"), tokens, TOLERANCE);
    const rows = seen.get("visual_tokens")?.data ?? [];
    const [, numRows = 0, width = 0] = tokens.shape;
    for (const [image, prompt] of prompts.entries()) {
      let row = VOCABULARY;
      const placed = prompt.map((id) => (id === IMAGE ? row++ : id));
      const table = rows.slice(image * numRows * width, (image + 1) * numRows * width);
      const inputs: Wire[] = [
        { name: "input_ids", datatype: "INT32", shape: [1, placed.length], data: placed },
        { name: "input_lengths", datatype: "INT32", shape: [1, 1], data: [placed.length] },
        { name: "request_output_len", datatype: "INT32", shape: [1, 1], data: [12] },
        { name: "prompt_embedding_table", datatype: "FP32", shape: [1, numRows, width], data: table },
      ];
      assert.deepEqual((await infer(server, "llm", inputs)).get("output_ids")?.data, ids[image]);
    }
    await server.stop();
  } finally {
    await server.kill();
  }
});

test("`nereid init-repo --pictures` serves the folder: images of a request enter one batch of the vision encoder", {
  timeout: 600_000,
}, async () => {
  const folder = await mkdtemp(join(tmpdir(), "nereid-llava-"));
  const model = join(folder, "model");
  await cp(LLAVA, model, { recursive: true });
  await cp(new URL("llava-next/tokenizer.json", import.meta.url), join(model, "tokenizer.json"));
  const processor = { image_processor_type: "CLIPImageProcessor", size: { shortest_edge: 12 }, crop_size: 12 };
  await writeFile(join(model, "preprocessor_config.json"), JSON.stringify(processor));
  const repository = join(folder, "repo");
  await runNode([NEREID, "init-repo", "--quiet", "--model", model, "--pictures", "--repo", repository]);
  const server = await startServerProcess({ repositories: [repository] });
  const ask = async (text: string, ...files: readonly string[]): Promise<string> => {
    const image = await Promise.all(files.map((file) => readFile(new URL(file, IMAGES), "base64")));
    const { text_output } = await generate(server, "vlm", { image, text_input: text, max_tokens: 8 });
    return String(text_output);
  };
  try {
    const alone = await ask("w5", "wide.png");
    assert.match(alone, /^(?:\s?w\d+){8}$/);
    assert.equal(await ask("w5", "wide.png"), alone);
    assert.notEqual(await ask("w5", "gray.png"), alone);
    assert.notEqual(await ask("w5", "wide.png", "gray.png"), alone);
    const stats = await fetch(`${server.baseUrl}/v2/models/vision_encoder/stats`);
    const { model_stats } = (await stats.json()) as { model_stats: readonly { readonly inference_count: number }[] };
    assert.equal(model_stats[0]?.inference_count, 5);
    await server.stop();
  } finally {
    await server.kill();
    await rm(folder, { recursive: true, force: true });
  }
});
