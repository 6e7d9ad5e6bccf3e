/** Encoders of Hugging Face folders behind the text APIs of the built server: vectors, scores of pairs, classes. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createModelRepository } from "../support/model-repository.ts";
import { startServerProcess } from "../support/server-process.ts";

const MODELS = fileURLToPath(new URL("text-encoders/", import.meta.url));

interface Recorded {
  readonly texts: readonly string[];
  readonly vectors: readonly (readonly number[])[];
  readonly pairs?: readonly (readonly [string, string])[];
  readonly scores?: readonly (readonly number[])[];
}

function recorded(name: string): Recorded {
  return JSON.parse(readFileSync(`${MODELS}${name}/expected.json`, "utf8")) as Recorded;
}

function configOf(name: string, inputs: readonly string[], output: string): string {
  const input = inputs.map((each) => `{ name: "${each}" data_type: TYPE_STRING dims: [ 1 ] }`).join(", ");
  return `name: "${name}" backend: "encoder" max_batch_size: 8 input [ ${input} ] output [ { data_type: TYPE_FP32 ${output} } ]
    parameters { key: "model_path" value: { string_value: "${MODELS}${name}" } }`;
}

const near = (a: number, b: number | undefined): boolean => Math.abs(a - (b ?? Number.NaN)) < 1e-4;

test("/v1/embeddings, /v1/rerank and /v1/classify answer with Hugging Face folders", async (t) => {
  await using repository = await createModelRepository({
    files: {
      "bert/config.pbtxt": configOf("bert", ["text"], 'name: "embedding" dims: [ 32 ]'),
      "xlm-roberta-rerank/config.pbtxt": configOf(
        "xlm-roberta-rerank",
        ["text", "text_pair"],
        'name: "logits" dims: [ 1 ]',
      ),
      "bert-classes/config.pbtxt": configOf(
        "bert-classes",
        ["text"],
        'name: "logits" dims: [ 3 ] label_filename: "labels.txt"',
      ),
      "bert-classes/labels.txt": "red\ngreen\nblue\n",
    },
  });
  const server = await startServerProcess({ repositories: [repository.path] });
  t.after(() => server.kill());
  const post = async <T>(path: string, body: unknown): Promise<T> => {
    const response = await fetch(`${server.baseUrl}${path}`, { method: "POST", body: JSON.stringify(body) });
    return (await response.json()) as T;
  };
  const { texts, vectors } = recorded("bert");
  const { data } = await post<{ readonly data: readonly { readonly embedding: readonly number[] }[] }>(
    "/v1/embeddings",
    {
      model: "bert",
      input: texts,
    },
  );
  const off = data.flatMap(({ embedding }, i) => embedding.filter((value, j) => !near(value, vectors[i]?.[j])));
  assert.deepEqual([data.length, off], [texts.length, []]);
  const { pairs = [], scores = [] } = recorded("xlm-roberta-rerank");
  const [query] = pairs[0] ?? [];
  const documents = pairs.slice(0, 2).map(([, document]) => document);
  const { results } = await post<{
    readonly results: readonly { readonly index: number; readonly relevance_score: number }[];
  }>("/v1/rerank", { model: "xlm-roberta-rerank", query, documents });
  const sigmoid = (value = 0): number => 1 / (1 + Math.exp(-value));
  assert.equal(results.length, 2);
  for (const { index, relevance_score: score } of results)
    assert.ok(near(score, sigmoid(scores[index]?.[0])), `${score}`);
  const classes = recorded("bert-classes");
  const answer = await post<{
    readonly data: readonly { readonly label: string; readonly probs: readonly number[] }[];
  }>("/v1/classify", { model: "bert-classes", input: classes.texts });
  const labels = ["red", "green", "blue"];
  for (const [i, { label, probs }] of answer.data.entries()) {
    const powers = (classes.vectors[i] ?? []).map(Math.exp);
    const total = powers.reduce((sum, power) => sum + power, 0);
    assert.ok(probs.every((share, j) => near(share, (powers[j] ?? 0) / total)));
    assert.equal(label, labels[powers.indexOf(Math.max(...powers))]);
  }
  assert.equal(answer.data.length, classes.texts.length);
});
