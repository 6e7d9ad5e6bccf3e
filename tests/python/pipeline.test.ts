import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { pythonVenv } from "../python-venv.ts";
import { createPipeline } from "../support/llm-pipeline.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const venv = await pythonVenv(["numpy", "tokenizers"]);
const MODELS = fileURLToPath(new URL("inflight_batcher_llm", import.meta.url));
const MODULES = fileURLToPath(new URL("modules", import.meta.url));
const PYTHON_MODELS = ["preprocessing", "postprocessing", "tensorrt_llm_bls"];

/** The texts of a stream, by the model that was asked. */
async function ask(server: ServerProcess, model: string, stream: boolean): Promise<string[]> {
  const body = JSON.stringify({
    text_input: "The quick brown fox jumps",
    max_tokens: 12,
    stream,
    bad_words: "",
    stop_words: "",
  });
  const reply = await fetch(`${server.baseUrl}/v2/models/${model}/generate_stream`, { method: "POST", body });
  const text = await reply.text();
  const events = text.split("\n\n").filter((event) => event.startsWith("data: "));
  assert.ok(reply.ok && events.length > 0, `${model}: ${reply.status} ${text}`);
  return events.map((event) =>
    String((JSON.parse(event.slice("data: ".length)) as Record<string, unknown>).text_output),
  );
}

async function answers(server: ServerProcess): Promise<string[]> {
  const all = [];
  for (const model of ["ensemble", "tensorrt_llm_bls"]) {
    for (const stream of [false, true]) all.push((await ask(server, model, stream)).join(""));
  }
  return all;
}

test("pipelines with Python pre- and postprocessing say what those without say", {
  skip: venv.reason,
  timeout: 600_000,
}, async () => {
  const more = { tensorrt_llm_bls: "tensorrt_llm_model_name:tensorrt_llm" };
  await using own = await createPipeline(more);
  await using python = await createPipeline(more, (text, model) =>
    PYTHON_MODELS.includes(model) ? text.replace(/^backend: ".*"$/m, 'backend: "python"') : text,
  );
  for (const model of PYTHON_MODELS) cpSync(join(MODELS, model, "model.py"), join(python.path, model, "1", "model.py"));
  const texts: string[][] = [];
  for (const repository of [own, python]) {
    const env = { NEREID_PYTHON: venv.python, PYTHONPATH: MODULES };
    const server = await startServerProcess({ repositories: [repository.path], env });
    texts.push(await answers(server).finally(() => server.stop()));
  }
  assert.deepEqual(texts[1], texts[0]);
  assert.ok(texts[0]?.every((text) => text.length > 0));
});
