/** Adapters that are loaded and unloaded while the server runs, as vLLM's clients do it; their texts are recorded. */
import assert from "node:assert/strict";
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
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
  lora_dir: "loras",
};
let repository: ModelRepository;
let server: ServerProcess;
let client: OpenAI;
let folder: string;

before(async () => {
  const lines = Object.entries(PARAMETERS).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
  );
  const config = readFileSync(`${EXAMPLES}/tensorrt_llm/config.pbtxt`, "utf8")
    .replace(/^parameters[\s\S]*?^}\n/gm, "")
    .replace('name: "tensorrt_llm"', 'name: "tiny"');
  repository = await createModelRepository({ files: { "tiny/config.pbtxt": config + lines.join("\n") } });
  folder = `${repository.path}/tiny/loras`;
  mkdirSync(folder);
  const flags = ["--allow-lora-updates=true", "--http-restricted-api=model-repository:admin-key=open"];
  server = await startServerProcess({ repositories: [repository.path], flags });
  client = new OpenAI({ apiKey: "none", baseURL: `${server.baseUrl}/v1`, maxRetries: 0 });
  for (const name of ["b", "c"]) cpSync(`${ADAPTERS}/${name}`, `${folder}/${name}`, { recursive: true });
});
after(async () => {
  await server?.stop();
  await repository?.[Symbol.asyncDispose]();
});

async function post(
  action: "load" | "unload",
  body: object,
  headers: Record<string, string> = { "admin-key": "open" },
) {
  const init = { method: "POST", headers, body: JSON.stringify(body) };
  const response = await fetch(`${server.baseUrl}/v1/${action}_lora_adapter`, init);
  return { status: response.status, text: await response.text() };
}

const greedyOf = (name: string): number[] =>
  JSON.parse(readFileSync(`${ADAPTERS}/${name}/expected.json`, "utf8")).greedy;

async function textOf(tokens: readonly number[]): Promise<string> {
  const body = JSON.stringify({ model: "tiny", tokens: tokens.slice(0, 8) });
  const response = await fetch(`${server.baseUrl}/detokenize`, { method: "POST", body });
  return JSON.parse(await response.text()).prompt;
}

async function ask(model: string): Promise<string> {
  const options = { skip_special_tokens: false };
  const answer = await client.completions.create({
    model,
    prompt: BASE.prompt,
    temperature: 0,
    max_tokens: 8,
    ...options,
  });
  return answer.choices[0]?.text ?? "";
}

async function listed(): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of client.models.list()) ids.push(id);
  return ids.sort();
}

test("an adapter is loaded, answers by both names, is replaced in place, and is unloaded", async () => {
  const loaded = await post("load", { lora_name: "french", lora_path: "b" });
  assert.deepEqual(loaded, { status: 200, text: "Success: LoRA adapter 'french' added successfully." });
  assert.deepEqual(await listed(), ["french", "tiny", "tiny:french"]);
  assert.equal(Reflect.get(await client.models.retrieve("french"), "parent"), "tiny");
  const french = await textOf(greedyOf("b"));
  assert.deepEqual([await ask("french"), await ask("tiny:french")], [french, french]);
  assert.equal(await ask("tiny"), await textOf(BASE.greedy));

  const again = await post("load", { lora_name: "french", lora_path: `${folder}/c` });
  assert.equal(again.status, 400);
  assert.match(again.text, /The lora adapter 'french' has already been loaded/);
  assert.equal((await post("load", { lora_name: "french", lora_path: `${folder}/c`, load_inplace: true })).status, 200);
  assert.equal(await ask("french"), await textOf(greedyOf("c")));

  assert.deepEqual(await post("unload", { lora_name: "french" }), {
    status: 200,
    text: "Success: LoRA adapter 'french' removed successfully.",
  });
  assert.deepEqual(await listed(), ["tiny"]);
  await assert.rejects(ask("french"), { status: 404, code: "model_not_found" });
});

test("a folder whose files were replaced is another adapter", async () => {
  cpSync(`${ADAPTERS}/b`, `${folder}/moving`, { recursive: true });
  assert.equal((await post("load", { lora_name: "moving", lora_path: "moving" })).status, 200);
  assert.equal(await ask("moving"), await textOf(greedyOf("b")));
  rmSync(`${folder}/moving`, { recursive: true });
  cpSync(`${ADAPTERS}/c`, `${folder}/moving`, { recursive: true });
  assert.equal(await ask("moving"), await textOf(greedyOf("c")));
});

test("folders elsewhere, and such as hold no adapter, are refused with one text", async () => {
  symlinkSync(`${ADAPTERS}/b`, `${folder}/link`);
  const elsewhere = ["..", ".", "", "/etc", "../1", `${ADAPTERS}/b`, "link", "b/../..", "none", "/proc/self"];
  for (const path of elsewhere) {
    const { status, text } = await post("load", { lora_name: "x", lora_path: path });
    assert.equal(status, 400, `${path}: ${text}`);
    assert.match(text, path === "" ? /must be provided/ : /expected a folder below its lora_dir/, path);
  }
  mkdirSync(`${folder}/empty`);
  writeFileSync(`${folder}/empty/adapter_config.json`, "{");
  const broken = await post("load", { lora_name: "x", lora_path: "empty" });
  assert.equal(broken.status, 400, broken.text);
  assert.match(broken.text, /cannot be loaded/);
  assert.deepEqual((await listed()).includes("x"), false);
});

test("names, models and restricted access are checked", async () => {
  const cases: readonly (readonly [body: object, status: number, message: RegExp])[] = [
    [{ lora_name: "tiny", lora_path: "b" }, 400, /conflicts with a served base model/],
    [{ lora_name: "a:b", lora_path: "b" }, 400, /Invalid 'lora_name'/],
    [{ lora_path: "b" }, 400, /Missing required parameter: 'lora_name'/],
    [{ lora_name: "x", lora_path: "b", base_model_name: "none" }, 404, /none/],
  ];
  for (const [body, status, message] of cases) {
    const answer = await post("load", body);
    assert.equal(answer.status, status, answer.text);
    assert.match(answer.text, message);
  }
  assert.equal((await post("unload", { lora_name: "none" })).status, 404);
  for (const action of ["load", "unload"] as const) {
    assert.equal((await post(action, { lora_name: "x", lora_path: "b" }, {})).status, 403);
  }
});

test("without the flag there are no such routes", { timeout: 600_000 }, async () => {
  await using other = await createModelRepository({});
  const plain = await startServerProcess({ repositories: [other.path] });
  try {
    for (const action of ["load", "unload"]) {
      const init = { method: "POST", body: '{"lora_name":"x","lora_path":"b"}' };
      const response = await fetch(`${plain.baseUrl}/v1/${action}_lora_adapter`, init);
      assert.equal(response.status, 404);
      assert.match(await response.text(), /--allow-lora-updates=true/);
    }
  } finally {
    await plain.kill();
  }
});
