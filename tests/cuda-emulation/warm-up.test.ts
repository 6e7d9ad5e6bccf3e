/**
 * An engine that was warmed up measures no algorithm, loads no kernel and records no graph for the sizes that it is
 * configured for, on an emulated GPU; the next start of the same model measures nothing at all.
 */
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { CudaRunnerOptions } from "../../server/src/engine/cuda/create-runner.ts";
import type { DecoderCudaRunner } from "../../server/src/engine/cuda/cuda-runner.ts";
import { warmUp } from "../../server/src/engine/cuda/warm-up.ts";
import { WarmUpStore } from "../../server/src/engine/cuda/warm-up-store.ts";
import type { GenerateRequest } from "../../server/src/engine/request/generate.ts";
import { engineOf, generateTokens, greedyRequest } from "../../server/src/engine/testing/generation.ts";
import { testSize } from "../support/long-tests.ts";
import { hostCompiler } from "./compile-emulation.ts";
import { EmulatedGpu } from "./emulated-gpu.ts";
import { openEmulated } from "./open-emulated.ts";

const MODEL = fileURLToPath(new URL("../parity/models/llama-3.2/", import.meta.url));
const SIZES = { blockSize: 16, numBlocks: 40, maxTokens: 32, maxSequences: 4 };
const BATCHES = { maxSequences: SIZES.maxSequences, maxBatchTokens: SIZES.maxTokens };
const SECONDS = 1000;
const BROKEN = '{"gemms":[{"shape":1}],"steps":[2]}';

const compiler = hostCompiler();
const skip = compiler.reason ?? false;
const folder = await mkdtemp(join(tmpdir(), "warm-up-"));
after(() => rm(folder, { recursive: true }));

interface Warm {
  readonly gpu: EmulatedGpu;
  readonly runner: DecoderCudaRunner;
  readonly lines: readonly string[];
}

async function open(store: WarmUpStore, changes: Partial<CudaRunnerOptions> = {}): Promise<Warm> {
  const gpu = new EmulatedGpu(compiler);
  gpu.numAlgorithms = 2;
  const runner = await openEmulated(gpu, {
    modelDir: MODEL,
    type: "f32",
    ...SIZES,
    usesGraphs: true,
    store,
    ...changes,
  });
  return { gpu, runner, lines: [] };
}

async function openWarm(store: WarmUpStore): Promise<Warm> {
  const opened = await open(store);
  const lines: string[] = [];
  await warmUp(opened.runner, { ...SIZES, seconds: SECONDS, store, tell: (line) => lines.push(line) });
  return { ...opened, lines };
}

function counts({ gpu, runner }: Warm): Readonly<Record<string, number>> {
  return {
    measured: runner.gemms.measuredUs.size,
    kernels: gpu.numKernels,
    graphs: gpu.graphs.numRecorded,
  };
}

function shapesOf({ runner }: Warm): readonly string[] {
  return runner.gemms.all.map(({ shape }) => shape).sort();
}

/** Prompts of every length up to the bound of a step, alone and beside others; longer ones in parts. */
const REQUESTS = [1, 2, 9, 31, 40].map((length) =>
  greedyRequest(
    Array.from({ length }, (_, i) => 3 + ((i * 7 + length) % 200)),
    6,
  ),
);

const [SHORT] = REQUESTS;
/** Ways to choose with kernels of their own, or rules that come late. */
const CHOICES = [
  { ...SHORT, topLogProbs: 3 },
  { ...SHORT, repetitionPenalty: 1.3, presencePenalty: 0.2 },
  { ...SHORT, temperature: 0.8, topK: 0, topP: 0.9, topPDecay: 0.9, seed: 3n },
  { ...SHORT, badWords: [Int32Array.of(5, 6)] },
] as readonly GenerateRequest[];

test("a warmed-up engine makes nothing for the first time after it is ready, and answers as one that is not", {
  skip,
}, async () => {
  const cold = engineOf((await open(new WarmUpStore({ folder: join(folder, "cold") }))).runner, BATCHES);
  const expected = await generateTokens(cold, [...REQUESTS, ...CHOICES]);
  await cold.close();
  const warm = await openWarm(new WarmUpStore({ folder: join(folder, "first") }));
  const ready = counts(warm);
  assert.ok(Object.values(ready).every((count) => count > 0));
  assert.match(warm.lines.join("\n"), /^warm-up: \d+ steps in \d+\.\d s$/);
  const engine = engineOf(warm.runner, BATCHES);
  for (const [i, request] of [...REQUESTS, ...CHOICES].entries()) {
    assert.deepEqual(await generateTokens(engine, [request]), [expected[i]]);
  }
  assert.deepEqual(await generateTokens(engine, [...REQUESTS, ...CHOICES]), expected);
  assert.deepEqual(counts(warm), ready);
  await engine.close();
});

test("the next start of a model takes the algorithms from the cache, and a broken cache costs a measurement", {
  skip,
}, async () => {
  const home = join(folder, "second");
  const first = await openWarm(new WarmUpStore({ folder: home }));
  const { measured, graphs } = counts(first);
  const shapes = shapesOf(first);
  await first.runner.close();
  const second = await openWarm(new WarmUpStore({ folder: home }));
  assert.equal(counts(second).measured, 0);
  assert.equal(counts(second).graphs, graphs);
  assert.deepEqual(shapesOf(second), shapes);
  await second.runner.close();
  const [name = ""] = await readdir(home);
  for (const text of testSize(1, 2) === 1 ? [BROKEN] : ["", "{}", BROKEN, "null"]) {
    await writeFile(join(home, name), text);
    const third = await openWarm(new WarmUpStore({ folder: home }));
    assert.equal(counts(third).measured, measured);
    await third.runner.close();
  }
});

test("a warm-up whose time is over says what it left, and the rest is made when it is needed", { skip }, async () => {
  const store = new WarmUpStore({ folder: join(folder, "short") });
  const { runner } = await open(store);
  const lines: string[] = [];
  let nowMs = 0;
  const clock = { nowMs: () => (nowMs += 1000) };
  await warmUp(runner, { ...SIZES, seconds: 3, store, tell: (line) => lines.push(line), ...clock });
  assert.match(
    lines.join("\n"),
    /^warm-up: 2 steps in 4\.0 s; \d+ more \(from prompt of 4 on\) are made when first needed/,
  );
  assert.deepEqual(store.steps, ["prompt of 1", "prompt of 2"]);
  const engine = engineOf(runner, BATCHES);
  assert.equal((await generateTokens(engine, REQUESTS)).length, REQUESTS.length);
  await engine.close();
});

test("a warm-up of no seconds does nothing", { skip }, async () => {
  const store = new WarmUpStore({ folder: join(folder, "none") });
  const opened = await open(store);
  await warmUp(opened.runner, { ...SIZES, seconds: 0, store, tell: () => assert.fail("said something") });
  assert.equal(counts(opened).graphs, 0);
  await opened.runner.close();
});
