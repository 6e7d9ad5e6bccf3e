/**
 * Memory of keys and values that comes and goes while real models run: windows that free blocks, windows that a user sets,
 * a host KV cache, 8 bits. The tokens are those of plenty of memory.
 */
import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import type { KvCacheSpec } from "../../server/src/engine/engine-spec.ts";
import { EngineHost } from "../../server/src/engine/host/engine-host.ts";
import { LlmEngine } from "../../server/src/engine/llm-engine.ts";
import { type Generator, NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import type { StepRunner } from "../../server/src/engine/step-runner.ts";
import { append, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import type { Logger } from "../../server/src/observe/log.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const MODELS = `${ROOT}tests/parity/models/`;
const directory = await mkdtemp(join(tmpdir(), "nereid-kv-"));
after(() => rm(directory, { recursive: true }));

async function tokensOf(engine: Generator, prompt: readonly number[], maxTokens: number): Promise<number[]> {
  const tokens: number[] = [];
  const request = { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(prompt), maxTokens };
  for await (const chunk of engine.generate(request)) tokens.push(...chunk.tokenIds);
  return tokens;
}

async function promptOf(model: string): Promise<number[]> {
  const text = await readFile(`${MODELS}${model}/expected.json`, "utf8");
  return (JSON.parse(text) as { readonly prompt: number[] }).prompt;
}

/** All of its layers see 16 keys; it goes up to 128 positions. */
const WINDOWED = "mistral";

async function windowedEngine(numBlocks: number, keepsAll: boolean): Promise<LlmEngine> {
  const runner = await createDecoderRunner({ modelDir: MODELS + WINDOWED, numBlocks, blockSize: 4, numThreads: 1 });
  assert.equal(runner.window, 16);
  const { vocabSize, hiddenSize, blockSize, maxPositions } = runner;
  const whole: StepRunner = {
    ...{ vocabSize, hiddenSize, blockSize, numBlocks, maxPositions },
    run: (input) => runner.run(input),
    close: () => runner.close(),
  };
  return new LlmEngine(keepsAll ? whole : runner, { ...DEFAULT_ENGINE_CONFIG, maxBatchTokens: 16 });
}

test("a model whose layers are all windowed runs past what its cache holds, with the tokens of a cache that keeps all", async () => {
  const prompt = await promptOf(WINDOWED);
  const [small, large] = [await windowedEngine(20, false), await windowedEngine(128, true)];
  // Each holds (16 - 1 + 16) tokens at most at a time, in 9 blocks of 4.
  const prompts = [prompt.slice(0, 30), prompt.slice(0, 7), prompt.slice(3, 33)];
  const run = (engine: LlmEngine): Promise<number[][]> =>
    Promise.all(prompts.map((each) => tokensOf(engine, each, 128 - each.length)));
  const tokens = await run(small);
  assert.deepEqual(
    tokens.map(({ length }) => length),
    [98, 121, 98],
  );
  assert.deepEqual(tokens, await run(large));
  small.checkIntegrity();
  assert.equal(small.stats().preemptions, 0);
  await small.close();
  await large.close();
});

async function logitsOf(modelDir: string, prompt: readonly number[], attentionWindows: readonly number[] = []) {
  const runner = await createDecoderRunner({ modelDir, numBlocks: 32, blockSize: 4, numThreads: 1, attentionWindows });
  const [logits = new Float32Array()] = await append(runner, [
    { sequence: new TestSequence(contiguousBlocks(0, 32)), tokens: prompt },
  ]);
  await runner.close();
  return logits;
}

test("windows that a user sets are those that a model of such windows has", async () => {
  const llama = `${MODELS}llama-2`;
  const prompt = await promptOf("llama-2");
  const copy = join(directory, "windowed");
  await cp(llama, copy, { recursive: true });
  const config = JSON.parse(await readFile(join(llama, "config.json"), "utf8")) as object;
  const windowed = { ...config, architectures: ["MistralForCausalLM"], model_type: "mistral", sliding_window: 9 };
  await writeFile(join(copy, "config.json"), JSON.stringify(windowed));
  const expected = await logitsOf(copy, prompt);
  assert.deepEqual(await logitsOf(llama, prompt, [9]), expected);
  assert.deepEqual(await logitsOf(copy, prompt, [500]), expected); // narrows, never widens
  const plain = await logitsOf(llama, prompt);
  assert.deepEqual(await logitsOf(llama, prompt, [128]), plain);
  const mixed = await logitsOf(llama, prompt, [9, 128]);
  assert.ok(maxDifference(mixed, plain) > 1e-3 && maxDifference(mixed, expected) > 1e-3);
});

function kvCache(changes: Partial<KvCacheSpec>): KvCacheSpec {
  return { type: undefined, bytes: 0, freeFraction: undefined, hostBytes: 0, attentionWindows: [], ...changes };
}

test("an engine's process says its plan, and takes prefixes back from the host KV cache, in 8 bits", async () => {
  const lines: string[] = [];
  const write = (_: string, line: string): void => {
    lines.push(line);
  };
  const log: Logger = { info: write, warn: write, error: write, verbose: () => undefined, table: write };
  const modelDir = `${ROOT}examples/nereid-tiny/language_model`;
  const start = (changes: Partial<KvCacheSpec>): Promise<EngineHost> =>
    EngineHost.start({
      name: "tiny",
      spec: { modelDir, engine: DEFAULT_ENGINE_CONFIG, kvCacheTokens: 0, numThreads: 1, kvCache: kvCache(changes) },
      log,
      entry: `${ROOT}server/src/main/engine-host.ts`,
    });
  const host = await start({ type: "q8_0", bytes: 512 * 2 ** 10, hostBytes: 4 * 2 ** 20 }); // 20 and 160 blocks
  const prompts = [10, 20, 30].map((first) => Array.from({ length: 120 }, (_, i) => first + i));
  const before: number[][] = [];
  for (const prompt of prompts) before.push(await tokensOf(host, prompt, 6));
  const again: number[][] = [];
  for (const prompt of prompts) again.push(await tokensOf(host, prompt, 6));
  const { kvBlocksOffloaded, kvBlocksOnboarded, kvBlocksMax } = host.stats();
  await host.close();
  assert.deepEqual(again, before);
  assert.equal(kvBlocksMax, 20);
  assert.ok(kvBlocksOffloaded > 0 && kvBlocksOnboarded > 0, `${kvBlocksOffloaded} ${kvBlocksOnboarded}`);
  const plan =
    /^tiny: memory plan: weights 45\.0 MiB, .* KV cache 510\.0 KiB \(20 blocks .* host KV cache 3\.98 MiB \(160 blocks\)/;
  assert.ok(
    lines.some((line) => plan.test(line)),
    lines.join("\n"),
  );
  await assert.rejects(start({ bytes: 2 ** 50 }), /the model does not fit: weights 45\.0 MiB, .* KV cache 1024\.0 TiB/);
});
