/** GGUF encoders behind the text APIs of the built server: vectors, and scores of pairs. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createModelRepository } from "../support/model-repository.ts";
import { startServerProcess } from "../support/server-process.ts";

const MODEL = fileURLToPath(new URL("models/bert.gguf", import.meta.url));
const { scores } = JSON.parse(readFileSync(new URL("models/vectors.json", import.meta.url), "utf8")) as {
  readonly scores: readonly (readonly number[])[];
};

const text = (name: string): string => `{ name: "${name}" data_type: TYPE_STRING dims: [ 1 ] }`;
const configOf = (name: string, inputs: string, output: string, more: string): string =>
  `name: "${name}" backend: "encoder" max_batch_size: 8 input [ ${inputs} ] output [ ${output} ]
   parameters { key: "model_path" value: { string_value: "${MODEL}" } } ${more}`;

test("/v1/embeddings and /v1/rerank answer with GGUF encoders", async (t) => {
  await using repository = await createModelRepository({
    files: {
      "bert/config.pbtxt": configOf(
        "bert",
        text("text"),
        '{ name: "embedding" data_type: TYPE_FP32 dims: [ 32 ] }',
        "",
      ),
      "ranker/config.pbtxt": configOf(
        "ranker",
        `${text("text")}, ${text("text_pair")}`,
        '{ name: "logits" data_type: TYPE_FP32 dims: [ 1 ] }',
        'parameters { key: "pooling" value: { string_value: "rank" } }',
      ),
    },
  });
  const server = await startServerProcess({ repositories: [repository.path] });
  t.after(() => server.kill());
  const post = async (path: string, body: unknown): Promise<unknown> => {
    const response = await fetch(`${server.baseUrl}${path}`, { method: "POST", body: JSON.stringify(body) });
    return response.json();
  };
  const { data } = (await post("/v1/embeddings", { model: "bert", input: ["hello", "a b c"] })) as {
    readonly data: readonly { readonly embedding: readonly number[] }[];
  };
  assert.deepEqual(
    data.map(({ embedding }) => [embedding.length, Number(Math.hypot(...embedding).toFixed(4))]),
    [
      [32, 1],
      [32, 1],
    ],
  );
  const { results } = (await post("/v1/rerank", {
    model: "ranker",
    query: "hello",
    documents: ["hello", "a b c"],
  })) as {
    readonly results: readonly { readonly index: number; readonly relevance_score: number }[];
  };
  const sigmoid = (value = 0): number => 1 / (1 + Math.exp(-value));
  assert.deepEqual(
    results.map(({ index, relevance_score: score }) => [index, score.toFixed(3)]),
    [1, 0].map((index) => [index, sigmoid(scores[index]?.[0]).toFixed(3)]),
  );
});
