/** A tiny LLaVA in its Hugging Face folder: its eye as ONNX and its language model, against transformers (see record_llava.py). */
import assert from "node:assert/strict";
import { mkdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createModelRepository } from "../support/model-repository.ts";
import { startServerProcess } from "../support/server-process.ts";
import { runNode } from "../support/vision-server.ts";

const LLAVA = fileURLToPath(new URL("llava", import.meta.url));
const NEREID = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const TOLERANCE = 1e-4;
const VOCABULARY = 96;
const IMAGE = 90;

interface Recorded {
  readonly pixels: { readonly shape: readonly number[]; readonly data: readonly number[] };
  readonly tokens: { readonly shape: readonly number[]; readonly data: readonly number[] };
  readonly prompts: readonly (readonly number[])[];
  readonly ids: readonly (readonly number[])[];
}

interface Wire {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: readonly number[];
}

const io = (name: string, type: string, dims: string, more = ""): string =>
  `{ name: "${name}" data_type: TYPE_${type} dims: [ ${dims} ] ${more} }`;
const FILES = {
  "eye/config.pbtxt": `name: "eye" backend: "onnxruntime" max_batch_size: 4
    input [ ${io("pixel_values", "FP32", "3, 12, 12")} ] output [ ${io("visual_tokens", "FP32", "9, 64")} ]`,
  "llm/config.pbtxt": `name: "llm" backend: "llm" max_batch_size: 4
    input [ ${io("input_ids", "INT32", "-1", "allow_ragged_batch: true")}, ${io("input_lengths", "INT32", "1", "reshape: { shape: [ ] }")},
            ${io("request_output_len", "INT32", "1")}, ${io("prompt_embedding_table", "FP32", "-1, -1", "optional: true")} ]
    output [ ${io("output_ids", "INT32", "-1, -1")}, ${io("sequence_length", "INT32", "-1")} ]
    parameters { key: "gpt_model_path" value { string_value: "${LLAVA}" } }
    parameters { key: "weight_type" value { string_value: "f32" } }
    parameters { key: "exclude_input_in_output" value { string_value: "true" } }`,
};

async function infer(
  baseUrl: string,
  model: string,
  inputs: readonly Wire[],
  output: string,
): Promise<readonly number[]> {
  const reply = await fetch(`${baseUrl}/v2/models/${model}/infer`, {
    method: "POST",
    body: JSON.stringify({ inputs }),
  });
  const { outputs, error } = (await reply.json()) as { outputs: (Wire & { name: string })[]; error?: string };
  assert.equal(error, undefined);
  return outputs.find(({ name }) => name === output)?.data ?? [];
}

test("visual tokens and answers of a LLaVA folder are those of transformers", { timeout: 120_000 }, async () => {
  const { pixels, tokens, prompts, ids }: Recorded = JSON.parse(await readFile(join(LLAVA, "expected.json"), "utf8"));
  await using repository = await createModelRepository({ files: FILES });
  const made = join(repository.path, "made");
  await mkdir(made);
  await runNode([NEREID, "onnx", "export", "--quiet", "--model", LLAVA, "--output", made]);
  await rename(join(made, "model.onnx"), join(repository.path, "eye/1/model.onnx"));
  const flags = ["--model-control-mode=explicit", "--load-model=eye", "--load-model=llm"];
  const server = await startServerProcess({ repositories: [repository.path], flags });
  try {
    const seen = await infer(
      server.baseUrl,
      "eye",
      [{ name: "pixel_values", datatype: "FP32", ...pixels }],
      "visual_tokens",
    );
    assert.equal(seen.length, tokens.data.length);
    const most = seen.reduce((max, value, i) => Math.max(max, Math.abs(value - (tokens.data[i] ?? Number.NaN))), 0);
    const largest = Math.max(...tokens.data.map(Math.abs));
    assert.ok(most <= TOLERANCE * largest, `${most} of ${largest}`);
    const [, numRows = 0, width = 0] = tokens.shape;
    for (const [picture, prompt] of prompts.entries()) {
      let row = VOCABULARY;
      const placed = prompt.map((id) => (id === IMAGE ? row++ : id));
      const table = seen.slice(picture * numRows * width, (picture + 1) * numRows * width);
      const inputs: Wire[] = [
        { name: "input_ids", datatype: "INT32", shape: [1, placed.length], data: placed },
        { name: "input_lengths", datatype: "INT32", shape: [1, 1], data: [placed.length] },
        { name: "request_output_len", datatype: "INT32", shape: [1, 1], data: [12] },
        { name: "prompt_embedding_table", datatype: "FP32", shape: [1, numRows, width], data: table },
      ];
      assert.deepEqual(await infer(server.baseUrl, "llm", inputs, "output_ids"), ids[picture]);
    }
    await server.stop();
  } finally {
    await server.kill();
  }
});
