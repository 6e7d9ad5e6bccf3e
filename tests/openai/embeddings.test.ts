/** Embeddings by OpenAI's own client; scores, rerank and classes in the shapes of vLLM, Jina and Cohere. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { EXAMPLES, type ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { createEmbeddingModels } from "./embedding-models.ts";

const MODEL = "caption_encoder";
const TEXTS = ["There is a red circle.", "There is a blue square.", "A red circle is there."];
let repository: ModelRepository;
let server: ServerProcess;
let client: OpenAI;

before(async () => {
  repository = await createEmbeddingModels((path) => readFileSync(path, "utf8"));
  server = await startServerProcess({ repositories: [EXAMPLES, repository.path] });
  client = new OpenAI({ apiKey: "none", baseURL: `${server.baseUrl}/v1`, maxRetries: 0 });
});

after(async () => {
  await server?.stop();
  await repository?.[Symbol.asyncDispose]();
});

async function post<T>(path: string, body: unknown, status = 200): Promise<T> {
  const response = await fetch(`${server.baseUrl}${path}`, { method: "POST", body: JSON.stringify(body) });
  assert.equal(response.status, status, path);
  return response.json() as Promise<T>;
}

function near(actual: readonly number[], expected: readonly number[]): void {
  assert.equal(actual.length, expected.length);
  for (const [i, value] of actual.entries()) assert.ok(Math.abs(value - (expected[i] ?? 0)) < 1e-5, `number ${i}`);
}

test("embeddings.create() gives what the model gives over V2, as floats and in base64", async () => {
  const direct: { outputs: { data: number[] }[] } = await post(`/v2/models/${MODEL}/infer`, {
    inputs: [{ name: "TEXT", datatype: "BYTES", shape: [3, 1], data: TEXTS }],
  });
  const expected = direct.outputs[0]?.data ?? [];
  // The client asks for base64 unless it is told otherwise.
  const asked = await client.embeddings.create({ model: MODEL, input: TEXTS });
  near(
    asked.data.flatMap(({ embedding }) => embedding),
    expected,
  );
  const floats = await client.embeddings.create({ model: MODEL, input: TEXTS, encoding_format: "float" });
  near(
    floats.data.flatMap(({ embedding }) => embedding),
    expected,
  );
  assert.deepEqual(
    floats.data.map(({ index }) => index),
    [0, 1, 2],
  );
  assert.ok(floats.usage.prompt_tokens > 10);
});

test("token ids embed as their text does, and dimensions shorten a vector to length 1", async () => {
  const { tokens }: { tokens: number[] } = await post("/tokenize", {
    model: "tensorrt_llm",
    prompt: TEXTS[0],
    add_special_tokens: false,
  });
  const text = await client.embeddings.create({ model: MODEL, input: TEXTS[0] ?? "" });
  const ids = await client.embeddings.create({ model: MODEL, input: [tokens, tokens] });
  for (const { embedding } of ids.data) near(embedding, text.data[0]?.embedding ?? []);
  const short = await client.embeddings.create({ model: MODEL, input: TEXTS[0] ?? "", dimensions: 16 });
  const vector = short.data[0]?.embedding ?? [];
  assert.equal(vector.length, 16);
  assert.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-5);
});

test("more texts than a batch holds come back in order", async () => {
  const many = Array.from({ length: 70 }, (_, i) => TEXTS[i % 3] ?? "");
  const all = await client.embeddings.create({ model: MODEL, input: many, encoding_format: "float" });
  const three = await client.embeddings.create({ model: MODEL, input: TEXTS, encoding_format: "float" });
  for (const { index, embedding } of all.data) near(embedding, three.data[index % 3]?.embedding ?? []);
});

test("rerank puts the nearest document first, by vectors and by pairs", async () => {
  const documents = ["There is a blue square.", { text: "There is a red circle." }, "It rains."];
  const query = "a red circle";
  for (const model of [MODEL, "pairs"]) {
    for (const path of ["/v1/rerank", "/v2/rerank", "/rerank"]) {
      const { results }: { results: { index: number; relevance_score: number; document: { text: string } }[] } =
        await post(path, { model, query, documents, top_n: 2 });
      assert.equal(results.length, 2);
      assert.equal(results[0]?.index, 1);
      assert.equal(results[0]?.document.text, "There is a red circle.");
    }
  }
});

test("/v1/score compares one text with several, or as many with each other", async () => {
  const one: { data: { score: number }[] } = await post("/v1/score", {
    model: "pairs",
    text_1: "a red circle",
    text_2: ["a red square", "a red circle", "x", "y", "a red"],
  });
  assert.deepEqual(
    one.data.map(({ score }) => score),
    [2, 3, 0, 0, 2],
  );
  const pairwise: { data: { score: number }[] } = await post("/score", {
    model: MODEL,
    text_1: [TEXTS[0], TEXTS[1]],
    text_2: [TEXTS[0], TEXTS[1]],
  });
  for (const { score } of pairwise.data) assert.ok(Math.abs(score - 1) < 1e-5);
});

test("/v1/classify names the class and its probability", async () => {
  const { data }: { data: { label: string; probs: number[]; num_classes: number }[] } = await post("/v1/classify", {
    model: "classes",
    input: ["ab", "abcdefgh"],
  });
  assert.deepEqual(
    data.map(({ label, num_classes: count }) => [label, count]),
    [
      ["short", 2],
      ["long", 2],
    ],
  );
  for (const { probs } of data) assert.ok(Math.abs(probs.reduce((sum, value) => sum + value, 0) - 1) < 1e-6);
});

const REFUSED: readonly (readonly [what: string, path: string, body: unknown, status: number, param: string | null])[] =
  [
    ["an unknown model", "/v1/embeddings", { model: "none", input: "x" }, 404, null],
    ["a model without vectors", "/v1/embeddings", { model: "pairs", input: "x" }, 400, "model"],
    ["an engine", "/v1/embeddings", { model: "tensorrt_llm", input: "x" }, 400, null],
    ["an empty input", "/v1/embeddings", { model: MODEL, input: [] }, 400, "input"],
    ["too many dimensions", "/v1/embeddings", { model: MODEL, input: "x", dimensions: 4096 }, 400, "dimensions"],
    ["texts of different numbers", "/v1/score", { model: MODEL, text_1: ["a", "b"], text_2: ["c"] }, 400, "text_1"],
    ["classes of a model without labels", "/v1/classify", { model: MODEL, input: "x" }, 400, "model"],
  ];

for (const [what, path, body, status, param] of REFUSED) {
  test(`${path} refuses ${what}`, async () => {
    const { error }: { error: { param: string | null } } = await post(path, body, status);
    assert.equal(error.param, param);
  });
}
