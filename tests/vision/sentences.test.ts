/**
 * Sentence embeddings of real MiniLM weights, served: tokenizer, ONNX model of `nereid onnx export`, pooling in the graph or by the
 * backend `pooling`. Compared with what sentence-transformers computed (see record_sentences.py); and in 8 bits.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mkdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { findMinilm } from "../support/minilm.ts";
import { createModelRepository, type ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { mapSome, runNode } from "../support/vision-server.ts";

const NEREID = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const TOLERANCE = 1e-4;
/** Least cosine with 8 bits. */
const LEAST_COSINE = 0.95;
const found = findMinilm();
const skip = "folder" in found ? false : found.reason;
const sentences: readonly { readonly text: string; readonly vector: Float32Array }[] = JSON.parse(
  readFileSync(new URL("sentences.json", import.meta.url), "utf8"),
).map(({ text, vector }: { text: string; vector: string }) => ({
  text,
  vector: new Float32Array(Uint8Array.from(Buffer.from(vector, "base64")).buffer),
}));

const io = (name: string, type: string, dims: string): string =>
  `{ name: "${name}" data_type: TYPE_${type} dims: [ ${dims} ] }`;
const map = (side: "input" | "output", pairs: Readonly<Record<string, string>>): string =>
  Object.entries(pairs)
    .map(([key, value]) => `${side}_map { key: "${key}" value: "${value}" }`)
    .join(" ");
const step = (
  model: string,
  inputs: Readonly<Record<string, string>>,
  outputs: Readonly<Record<string, string>>,
): string => `step { model_name: "${model}" model_version: -1 ${map("input", inputs)} ${map("output", outputs)} }`;
const TOKENS = { input_ids: "_ids", attention_mask: "_mask", token_type_ids: "_types" };
const ensemble = (name: string, ...steps: readonly string[]): string =>
  `name: "${name}" platform: "ensemble" max_batch_size: 16
   input [ ${io("TEXT", "STRING", "1")} ] output [ ${io("embedding", "FP32", "384")} ]
   ensemble_scheduling { ${step("tokens", { TEXT: "TEXT" }, TOKENS)} ${steps.join(" ")} }`;
const encoder = (name: string): string =>
  `name: "${name}" backend: "onnxruntime" max_batch_size: 16 dynamic_batching { max_queue_delay_microseconds: 2000 }
   input [ ${io("input_ids", "INT64", "-1")}, ${io("attention_mask", "INT64", "-1")}, ${io("token_type_ids", "INT64", "-1")} ]
   output [ ${io("last_hidden_state", "FP32", "-1, 384")}, ${io("sentence_embedding", "FP32", "384")} ]`;

const files = (folder: string): Readonly<Record<string, string>> => ({
  "tokens/config.pbtxt": `name: "tokens" backend: "tokenizer" max_batch_size: 16
    input [ ${io("TEXT", "STRING", "1")} ]
    output [ ${Object.keys(TOKENS)
      .map((name) => io(name, "INT64", "-1"))
      .join(", ")} ]
    parameters { key: "tokenizer_dir" value { string_value: "${folder}" } }
    parameters { key: "pad_to_multiple_of" value { string_value: "16" } }`,
  "minilm/config.pbtxt": encoder("minilm"),
  "minilm_int8/config.pbtxt": encoder("minilm_int8"),
  "pooling/config.pbtxt": `name: "pooling" backend: "pooling" max_batch_size: 16
    input [ ${io("last_hidden_state", "FP32", "-1, 384")}, ${io("attention_mask", "INT64", "-1")} ]
    output [ ${io("embedding", "FP32", "384")} ]`,
  "in_graph/config.pbtxt": ensemble("in_graph", step("minilm", TOKENS, { sentence_embedding: "embedding" })),
  "by_backend/config.pbtxt": ensemble(
    "by_backend",
    step("minilm", TOKENS, { last_hidden_state: "_states" }),
    step("pooling", { last_hidden_state: "_states", attention_mask: "_mask" }, { embedding: "embedding" }),
  ),
  "int8/config.pbtxt": ensemble("int8", step("minilm_int8", TOKENS, { sentence_embedding: "embedding" })),
});

let repository: ModelRepository | undefined;
let server: ServerProcess | undefined;

before(async () => {
  if (!("folder" in found)) return;
  repository = await createModelRepository({ files: files(found.folder) });
  const made = join(repository.path, "made");
  await mkdir(made);
  await runNode([NEREID, "onnx", "export", "--quiet", "--model", found.folder, "--output", made]);
  await runNode([
    NEREID,
    "onnx",
    "quantize",
    "--quiet",
    "--samples",
    "1",
    "--input",
    join(made, "model.onnx"),
    "--output",
    join(repository.path, "minilm_int8/1/model.onnx"),
  ]);
  await rename(join(made, "model.onnx"), join(repository.path, "minilm/1/model.onnx"));
  const names = Object.keys(files("")).map((file) => file.split("/")[0]);
  const flags = ["--model-control-mode=explicit", ...names.map((name) => `--load-model=${name}`)];
  server = await startServerProcess({ repositories: [repository.path], flags });
});

after(async () => {
  await server?.kill();
  await repository?.[Symbol.asyncDispose]();
});

/** All at once, so that they run in batches, padded beside each other. */
function embed(model: string): Promise<Float32Array[]> {
  return mapSome(sentences, sentences.length, async ({ text }) => {
    const body = JSON.stringify({ inputs: [{ name: "TEXT", datatype: "BYTES", shape: [1, 1], data: [text] }] });
    const reply = await fetch(`${server?.baseUrl}/v2/models/${model}/infer`, { method: "POST", body });
    const { outputs, error } = (await reply.json()) as { outputs: { data: number[] }[]; error?: string };
    assert.equal(error, undefined);
    return Float32Array.from(outputs[0]?.data ?? []);
  });
}

for (const model of ["in_graph", "by_backend"]) {
  test(`embeddings of MiniLM pooled ${model} equal those of sentence-transformers to ${TOLERANCE}`, {
    skip,
  }, async () => {
    const vectors = await embed(model);
    vectors.forEach((vector, i) => {
      const expected = sentences[i]?.vector ?? new Float32Array(0);
      assert.equal(vector.length, expected.length);
      const most = vector.reduce((max, value, at) => Math.max(max, Math.abs(value - (expected[at] ?? Number.NaN))), 0);
      assert.ok(most <= TOLERANCE, `${sentences[i]?.text}: ${most}`);
    });
  });
}

test(`embeddings of MiniLM in 8 bits keep a cosine of ${LEAST_COSINE} with the originals`, {
  skip,
}, async (context) => {
  const vectors = await embed("int8");
  const cosines = vectors.map((vector, i) =>
    vector.reduce((sum, value, at) => sum + value * (sentences[i]?.vector[at] ?? 0), 0),
  );
  context.diagnostic(`cosines: ${cosines.map((cosine) => cosine.toFixed(4)).join(" ")}`);
  assert.ok(
    cosines.every((cosine) => cosine >= LEAST_COSINE && cosine <= 1.0001),
    cosines.join(" "),
  );
});
