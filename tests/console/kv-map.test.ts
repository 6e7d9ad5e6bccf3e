/** The map of a language model's KV blocks, from its engine's process to the console's route. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { ConsoleLive, ConsoleLlm } from "@nereid/server/protocol/console/console-types";
import { EXAMPLES } from "../support/model-repository.ts";
import { eventually } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const LLM = "tensorrt_llm";
const FLAGS = ["--allow-console=true", "--model-control-mode=explicit", `--load-model=${LLM}`];
let server: ServerProcess;

before(async () => {
  server = await startServerProcess({ repositories: [EXAMPLES], flags: FLAGS });
});
after(() => server?.stop());

async function llm(): Promise<ConsoleLlm | undefined> {
  const answer = await fetch(`${server.baseUrl}/console/api/live`);
  const live: ConsoleLive = JSON.parse(await answer.text());
  return live.models.find(({ name }) => name === LLM)?.llm;
}

test("the live view has a letter for each KV block, and blocks of a past prompt are kept", async () => {
  const body = { model: LLM, prompt: "word ".repeat(200), max_tokens: 4, temperature: 0 };
  const answer = await fetch(`${server.baseUrl}/v1/completions`, { method: "POST", body: JSON.stringify(body) });
  assert.equal(answer.status, 200);
  await answer.text();
  // Nothing runs: blocks are free, or kept for the prefix of the prompt.
  const rested = await eventually(llm, (seen) => /^[fc]*c[fc]*$/.test(seen?.kvBlockMap ?? ""));
  assert.equal(rested?.kvBlocksUsed, 0);
  assert.ok((rested.kvBlockMap?.length ?? 0) <= Math.min(rested.kvBlocksMax, 1024));
  const metrics = await (await fetch(`http://127.0.0.1:${server.metrics}/metrics`)).text();
  assert.doesNotMatch(metrics, /kv_cache_block_map/);
});
