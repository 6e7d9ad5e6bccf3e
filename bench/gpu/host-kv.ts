/**
 * The host KV cache of a GPU: texts whose prompts went to the host's memory and came back, and how fast blocks
 * cross, by themselves and beside steps.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { DecoderCudaRunner } from "../../server/src/engine/cuda/cuda-runner.ts";
import { engineOf, generateTokens, greedyRequest } from "../../server/src/engine/testing/generation.ts";
import { contiguousBlocks, stepOf, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { createRanks } from "./ranks.ts";
import type { FeatureForm } from "./speculation.ts";

export interface HostKvResult extends FeatureForm {
  readonly numSame: number;
  readonly numTexts: number;
  readonly numOffloaded: number;
  readonly numOnboarded: number;
}

const MAX_TOKENS = 16;

/** Prompts one after the other, twice; the cache holds fewer than half of them. */
export async function compareHostKv(folder: string, form: FeatureForm, ranks: string): Promise<HostKvResult> {
  const golden = JSON.parse(readFileSync(join(folder, "golden_text.json"), "utf8")) as readonly {
    readonly input_ids: readonly number[];
    readonly output_ids: readonly number[];
  }[];
  const prompts = golden.map(({ input_ids, output_ids }) => [...input_ids, ...output_ids]);
  const numNeeded = prompts.reduce((sum, { length }) => sum + Math.ceil((length + MAX_TOKENS) / 16), 0);
  const longest = Math.max(...prompts.map(({ length }) => Math.ceil((length + MAX_TOKENS) / 16)));
  const runner = await createRanks(ranks, {
    modelDir: join(folder, "language_model"),
    ...{ ...form, blockSize: 16, numBlocks: Math.max(longest + 1, Math.floor(numNeeded / 3)), hostBytes: 2 ** 28 },
    ...{ maxTokens: 512, maxSequences: 4 },
  });
  const engine = engineOf(runner, { maxSequences: 4 });
  const rounds: string[][] = [];
  for (let round = 0; round < 2; round++) {
    const texts: string[] = [];
    for (const prompt of prompts) texts.push(String(await generateTokens(engine, [greedyRequest(prompt, MAX_TOKENS)])));
    rounds.push(texts);
  }
  const { kvBlocksOffloaded: numOffloaded, kvBlocksOnboarded: numOnboarded } = engine.stats();
  await engine.close();
  const [first = [], second = []] = rounds;
  const numSame = second.filter((text, i) => text === first[i]).length;
  return { ...form, numSame, numTexts: second.length, numOffloaded, numOnboarded };
}

export interface CrossingResult {
  readonly blockMiB: number;
  readonly toHostGbPerSecond: number;
  readonly fromHostGbPerSecond: number;
  /** Step of one sequence, with and without two blocks that go to the host in each. */
  readonly stepMs: number;
  readonly stepWithTwoMs: number;
}

export async function measureCrossing(runner: DecoderCudaRunner, blockBytes: number): Promise<CrossingResult> {
  const { numBlocks, numHostBlocks } = runner;
  const count = Math.min(numHostBlocks, 256);
  const pairs = (isToHost: boolean, length: number): Int32Array =>
    Int32Array.from({ length: 2 * length }, (_, i) =>
      (i % 2 === 0) === isToHost ? 8 + (i >> 1) : numBlocks + (i >> 1),
    );
  const rate = async (isToHost: boolean): Promise<number> => {
    const startMs = performance.now();
    await step(runner, undefined, pairs(isToHost, count));
    // A step that reads what came last: it waits for all.
    await step(runner, undefined, pairs(false, 1));
    return (count * blockBytes) / (performance.now() - startMs) / 1e6;
  };
  await rate(true);
  const [toHostGbPerSecond, fromHostGbPerSecond] = [await rate(true), await rate(false)];
  const stepMs = await medianOf(runner, undefined);
  const stepWithTwoMs = await medianOf(runner, pairs(true, 2));
  return { blockMiB: blockBytes / 2 ** 20, toHostGbPerSecond, fromHostGbPerSecond, stepMs, stepWithTwoMs };
}

async function medianOf(runner: DecoderCudaRunner, copies: Int32Array | undefined): Promise<number> {
  const sequence = new TestSequence(contiguousBlocks(0, 8));
  const times: number[] = [];
  for (let i = 0; i < 24; i++) {
    const startMs = performance.now();
    await step(runner, sequence, copies);
    times.push(performance.now() - startMs);
  }
  return times.sort((a, b) => a - b)[12] ?? 0;
}

/** A token more of the sequence, or nothing but the copies. */
async function step(
  runner: DecoderCudaRunner,
  sequence: TestSequence | undefined,
  blockCopies: Int32Array | undefined,
): Promise<void> {
  const input = stepOf(runner, sequence === undefined ? [] : [{ sequence, tokens: [7] }]);
  await runner.run(blockCopies === undefined ? input : { ...input, blockCopies });
  if (sequence !== undefined) sequence.numCached += 1;
}
