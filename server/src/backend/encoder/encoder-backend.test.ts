import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { loadInstance } from "../../../../tests/fakes/run-instance.ts";
import { packBytesElements } from "../../core/bytes-tensor.ts";
import type { Tensor } from "../../core/tensor.ts";
import { createEncoderBackend } from "./encoder-backend.ts";

const MODELS = fileURLToPath(new URL("../../../../tests/llama-cpp/models", import.meta.url));
const { texts, rows, scores } = JSON.parse(readFileSync(`${MODELS}/vectors.json`, "utf8")) as {
  readonly texts: readonly string[];
  readonly rows: readonly (readonly number[])[];
  readonly scores: readonly (readonly number[])[];
};
const BOUND = 1e-4;

function configOf(parameters: Readonly<Record<string, string>> = {}, inputs = ["text"], width = 32): string {
  const input = inputs.map((name) => `{ name: "${name}" data_type: TYPE_STRING dims: [ 1 ] }`).join(", ");
  const given = Object.entries({ model_path: "bert.gguf", num_threads: "1", ...parameters });
  const list = given.map(([key, value]) => `parameters { key: "${key}" value: { string_value: "${value}" } }`);
  const output = `{ name: "embedding" data_type: TYPE_FP32 dims: [ ${width} ] }`;
  return `name: "bert" backend: "encoder" max_batch_size: 8 input [ ${input} ] output [ ${output} ]\n${list.join("\n")}`;
}

function textTensor(name: string, values: readonly string[]): Tensor {
  const data = packBytesElements(values.map((value) => Buffer.from(value)));
  return { name, datatype: "BYTES", shape: [values.length, 1], data };
}

function numbersOf(tensor: Tensor | undefined): { readonly shape: readonly number[]; readonly values: Float32Array } {
  assert.ok(tensor !== undefined, "an output");
  return { shape: tensor.shape, values: new Float32Array(Uint8Array.from(tensor.data).buffer) };
}

function largestDifference(actual: Float32Array, expected: readonly number[]): number {
  assert.equal(actual.length, expected.length);
  return expected.reduce((most, value, i) => Math.max(most, Math.abs(value - (actual[i] ?? Number.NaN))), 0);
}

const plain = await loadInstance(createEncoderBackend(), configOf({ normalize: "false" }), MODELS);
after(() => plain[Symbol.asyncDispose]());

test("texts of a batch get the vectors that libllama gives each alone", async () => {
  const { shape, values } = numbersOf((await plain.run([textTensor("text", texts)])).get("embedding"));
  assert.deepEqual(shape, [texts.length, 32]);
  const off = largestDifference(values, rows.flat());
  assert.ok(off < BOUND, `vectors are off by ${off}`);
});

test("a text of too many tokens costs its request alone, with the numbers", async () => {
  const long = plain.run([textTensor("text", ["x".repeat(300)])]);
  const short = plain.run([textTensor("text", ["hello"])]);
  await assert.rejects(long, { message: /^text 0: expected 1 to 256 tokens, got 302$/ });
  assert.ok(largestDifference(numbersOf((await short).get("embedding")).values, rows[0] ?? []) < BOUND);
});

test("pairs of texts get the scores of a rerank head, and vectors the length 1 by default", async () => {
  const config = configOf({ pooling: "rank" }, ["text", "text_pair"], 1);
  await using reranker = await loadInstance(createEncoderBackend(), config, MODELS);
  const pairs = [
    textTensor(
      "text",
      texts.map(() => texts[0] ?? ""),
    ),
    textTensor("text_pair", texts),
  ];
  const { shape, values } = numbersOf((await reranker.run(pairs)).get("embedding"));
  assert.deepEqual(shape, [texts.length, 1]);
  const off = largestDifference(values, scores.flat());
  assert.ok(off < BOUND, `scores are off by ${off}`);
  await using normalized = await loadInstance(createEncoderBackend(), configOf(), MODELS);
  const row = numbersOf((await normalized.run([textTensor("text", ["hello"])])).get("embedding")).values;
  assert.ok(Math.abs(Math.hypot(...row) - 1) < 1e-5);
});

const FOLDERS = fileURLToPath(new URL("../../../../tests/parity/text-encoders", import.meta.url));

interface RecordedFolder {
  readonly texts: readonly string[];
  readonly vectors: readonly (readonly number[])[];
  readonly pairs?: readonly (readonly [string, string])[];
  readonly scores?: readonly (readonly number[])[];
}

function recordedFolder(name: string): RecordedFolder {
  return JSON.parse(readFileSync(`${FOLDERS}/${name}/expected.json`, "utf8")) as RecordedFolder;
}

test("a Hugging Face folder gives the vectors of sentence-transformers, with its pooling and its length of 1", async () => {
  const folder = recordedFolder("embedding-gemma");
  const config = configOf({ model_path: "embedding-gemma" }, ["text"], 16);
  await using encoder = await loadInstance(createEncoderBackend(), config, FOLDERS);
  const { shape, values } = numbersOf((await encoder.run([textTensor("text", folder.texts)])).get("embedding"));
  assert.deepEqual(shape, [folder.texts.length, 16]);
  assert.ok(largestDifference(values, folder.vectors.flat()) < BOUND);
});

test("Hugging Face folders with a head give classes of texts and scores of pairs, as they are", async () => {
  const classes = recordedFolder("bert-classes");
  const config = configOf({ model_path: "bert-classes" }, ["text"], 3);
  await using classifier = await loadInstance(createEncoderBackend(), config, FOLDERS);
  const rows = numbersOf((await classifier.run([textTensor("text", classes.texts)])).get("embedding"));
  assert.ok(largestDifference(rows.values, classes.vectors.flat()) < BOUND);
  const { pairs = [], scores: expected = [] } = recordedFolder("xlm-roberta-rerank");
  const pairConfig = configOf({ model_path: "xlm-roberta-rerank" }, ["text", "text_pair"], 1);
  await using reranker = await loadInstance(createEncoderBackend(), pairConfig, FOLDERS);
  const inputs = ["text", "text_pair"].map((name, side) =>
    textTensor(
      name,
      pairs.map((pair) => pair[side] ?? ""),
    ),
  );
  const scored = numbersOf((await reranker.run(inputs)).get("embedding"));
  assert.equal(scored.values.length, 4);
  assert.ok(largestDifference(scored.values, expected.flat()) < BOUND);
});

test("configurations and files that make no sense are refused when the model is loaded", async () => {
  const refusals: readonly (readonly [string, RegExp])[] = [
    [configOf({ pooling: "sum" }), /parameter 'pooling' is 'sum', expected none, mean, cls, last, max, rank/],
    [configOf({}, ["text"], 31), /output 'embedding' has rows of 31 numbers, and the model gives 32/],
    [configOf({ model_path: "." }), /expected one GGUF model, got bert\.gguf, /],
    [configOf({ model_path: "expected.json" }), /expected a GGUF file or a config.json in .*expected\.json/],
    [configOf({}, ["a", "b", "c"]), /expects one input of TYPE_STRING, or two for pairs/],
  ];
  for (const [config, message] of refusals) {
    await assert.rejects(loadInstance(createEncoderBackend(), config, MODELS), { message });
  }
});
