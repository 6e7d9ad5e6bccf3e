/**
 * The engine in a process of its own, as the server runs it, over models of several architectures: requests side by side
 * give the tokens that Hugging Face transformers chose.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import { EngineHost } from "../../server/src/engine/host/engine-host.ts";
import { NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import type { Logger } from "../../server/src/observe/log.ts";

const ENTRY = fileURLToPath(new URL("../../server/src/main/engine-host.ts", import.meta.url));
const MODELS = fileURLToPath(new URL("./", import.meta.url));
const nothing = (): void => undefined;
const SILENT: Logger = { info: nothing, warn: nothing, error: nothing, verbose: nothing, table: nothing };

async function tokensOf(host: EngineHost, prompt: readonly number[], maxTokens: number): Promise<number[]> {
  const tokens: number[] = [];
  const request = { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(prompt), maxTokens };
  for await (const chunk of host.generate(request)) tokens.push(...chunk.tokenIds);
  return tokens;
}

const NAMES = [
  ...["gpt2", "gemma-2", "gemma-3", "qwen2-moe", "phi-4-mini"].map((name) => `models/${name}`),
  ...["gemma-3n", "gemma-4"].map((name) => `architectures/${name}`),
];

for (const name of NAMES) {
  test(`generate() of the engine's process gives the recorded tokens of ${name}, three requests side by side`, async () => {
    const modelDir = `${MODELS}${name}`;
    const text = readFileSync(`${modelDir}/expected.json`, "utf8");
    const { prompt, greedy } = JSON.parse(text) as { readonly prompt: number[]; readonly greedy: number[] };
    const spec = { modelDir, engine: DEFAULT_ENGINE_CONFIG, kvCacheTokens: 512, numThreads: 1 };
    const host = await EngineHost.start({ name, spec, log: SILENT, entry: ENTRY });
    try {
      const numGiven = Math.min(6, greedy.length - 1);
      const continued = [...prompt, ...greedy.slice(0, numGiven)];
      const answers = await Promise.all([
        tokensOf(host, prompt, greedy.length),
        tokensOf(host, continued, greedy.length - numGiven),
        tokensOf(host, prompt, 5),
      ]);
      assert.deepEqual(answers, [greedy, greedy.slice(numGiven), greedy.slice(0, 5)]);
    } finally {
      await host.close();
    }
  });
}
