/** Adapters by the name of a model: `base:adapter`, on a tiny model whose answers under each adapter are recorded. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import OpenAI from "openai";
import { LANGUAGE_MODEL } from "../support/llm-pipeline.ts";
import { createModelRepository, EXAMPLES, type ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const PARITY = fileURLToPath(new URL("../parity/", import.meta.url));
const ADAPTERS = `${PARITY}adapters/llama-3.2`;
const BASE: { prompt: number[]; greedy: number[] } = JSON.parse(
  readFileSync(`${PARITY}models/llama-3.2/expected.json`, "utf8"),
);
const PARAMETERS: Readonly<Record<string, string>> = {
  gpt_model_path: `${PARITY}models/llama-3.2`,
  tokenizer_dir: LANGUAGE_MODEL,
  num_threads: "1",
  lora_adapters: `french:${ADAPTERS}/b,german:${ADAPTERS}/c`,
};
let repository: ModelRepository;
let server: ServerProcess;
let client: OpenAI;

before(async () => {
  const lines = Object.entries(PARAMETERS).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
  );
  const config = readFileSync(`${EXAMPLES}/tensorrt_llm/config.pbtxt`, "utf8")
    .replace(/^parameters[\s\S]*?^}\n/gm, "")
    .replace('name: "tensorrt_llm"', 'name: "tiny"');
  repository = await createModelRepository({ files: { "tiny/config.pbtxt": config + lines.join("\n") } });
  server = await startServerProcess({ repositories: [repository.path] });
  client = new OpenAI({ apiKey: "none", baseURL: `${server.baseUrl}/v1`, maxRetries: 0 });
});

after(async () => {
  await server?.stop();
  await repository?.[Symbol.asyncDispose]();
});

const greedyOf = (name: string): number[] =>
  JSON.parse(readFileSync(`${ADAPTERS}/${name}/expected.json`, "utf8")).greedy;

/** Text of the tokens that the test expects, special ones included. */
async function textOf(tokens: readonly number[]): Promise<string> {
  const body = JSON.stringify({ model: "tiny", tokens });
  const response = await fetch(`${server.baseUrl}/detokenize`, { method: "POST", body });
  const { prompt }: { prompt: string } = JSON.parse(await response.text());
  return prompt;
}

async function ask(model: string): Promise<string> {
  const options = { skip_special_tokens: false };
  const body = { model, prompt: BASE.prompt, temperature: 0, max_tokens: 8, ...options };
  const answer = await client.completions.create(body);
  return answer.choices[0]?.text ?? "";
}

test("base:adapter answers as the adapter does, and base as the base", async () => {
  assert.equal(await ask("tiny"), await textOf(BASE.greedy.slice(0, 8)));
  assert.equal(await ask("tiny:french"), await textOf(greedyOf("b").slice(0, 8)));
  assert.equal(await ask("tiny:german"), await textOf(greedyOf("c").slice(0, 8)));
});

test("adapters are models of their own, with their base as parent", async () => {
  const models: OpenAI.Model[] = [];
  for await (const model of client.models.list()) models.push(model);
  assert.deepEqual(models.map(({ id }) => id).sort(), ["tiny", "tiny:french", "tiny:german"]);
  assert.equal(Reflect.get(await client.models.retrieve("tiny:french"), "parent"), "tiny");
});

test("an adapter that is not there is refused, and others are served", async () => {
  await assert.rejects(ask("tiny:klingon"), (error: unknown) => {
    assert.ok(error instanceof OpenAI.APIError);
    return error.status === 404 && error.code === "model_not_found";
  });
  assert.equal(await ask("tiny:french"), await textOf(greedyOf("b").slice(0, 8)));
});
