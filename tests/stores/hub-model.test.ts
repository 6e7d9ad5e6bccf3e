/** A language model of a hub, named at the start of the server, answers with text. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { liveFolders, temporaryFolder } from "../../object-stores/src/open-stores.test-support.ts";
import { FakeHub } from "../../server/src/hub/hub-server.test-support.ts";
import { startServerProcess } from "../support/server-process.ts";

const MODEL = fileURLToPath(new URL("../../examples/nereid-tiny/language_model/", import.meta.url));

test("--model-repository=hf://… of a language model serves text, and leaves nothing behind", async (t) => {
  const hub = await FakeHub.start();
  t.after(() => hub[Symbol.asyncDispose]());
  for (const name of readdirSync(MODEL)) hub.add(name, readFileSync(`${MODEL}${name}`), name.endsWith(".safetensors"));
  const cache = temporaryFolder(t);
  const server = await startServerProcess({
    repositories: ["hf://org/tiny"],
    env: { HF_ENDPOINT: hub.endpoint, HF_HOME: cache, NEREID_MODEL_CACHE: cache },
  });
  t.after(() => server.kill());
  const response = await fetch(`${server.baseUrl}/v2/models/ensemble/generate`, {
    method: "POST",
    body: JSON.stringify({ text_input: "a photo of", max_tokens: 4 }),
  });
  const answer = (await response.json()) as { text_output?: string };
  assert.equal(response.status, 200, JSON.stringify(answer));
  assert.ok((answer.text_output ?? "").length > 0);
  await server.stop();
  assert.deepEqual(liveFolders(cache), []);
});
