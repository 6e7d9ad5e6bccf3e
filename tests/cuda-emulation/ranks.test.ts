/**
 * Models on several GPUs whose kernels run on emulated threads, against one GPU or the CPU's engine: what the leader decides
 * is done by all.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { writeCudaEngine } from "../../offline/src/build/build-cuda-engine.ts";
import { convertCheckpoint } from "../../offline/src/checkpoint/convert-checkpoint.ts";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import type { CudaRunnerOptions } from "../../server/src/engine/cuda/create-runner.ts";
import { cudaTarget } from "../../server/src/engine/cuda/create-runner.ts";
import type { DecoderCudaRunner } from "../../server/src/engine/cuda/cuda-runner.ts";
import { IsolatedRank } from "../../server/src/engine/ranks/isolated-rank.ts";
import type { GenerateRequest } from "../../server/src/engine/request/generate.ts";
import { ModelDrafter } from "../../server/src/engine/speculation/model-drafter.ts";
import type { StepRunner } from "../../server/src/engine/step-runner.ts";
import { engineOf, generateTokens, greedyRequest } from "../../server/src/engine/testing/generation.ts";
import { append, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { Reporter } from "../../server/src/files/progress.ts";
import { readRankMapping } from "../../server/src/formats/trtllm/rank-mapping.ts";
import { hostCompiler } from "./compile-emulation.ts";
import { EmulatedGpu } from "./emulated-gpu.ts";
import { openEmulatedRanks } from "./emulated-rank.ts";
import { generateAdapted } from "./generate-adapted.ts";
import { generateAgain } from "./generate-again.ts";
import { openEmulated } from "./open-emulated.ts";

const PARITY = fileURLToPath(new URL("../parity/", import.meta.url));
const MODEL = `${PARITY}models/llama-3.2`;
const SIZES = { blockSize: 16, numBlocks: 24, maxTokens: 128, maxSequences: 4 };

const skip = hostCompiler().reason ?? false;

const OPTIONS: CudaRunnerOptions = { modelDir: MODEL, type: "f32", ...SIZES };

async function openRanks(ranks: string, changes: Partial<CudaRunnerOptions> = {}): Promise<StepRunner> {
  return (await openEmulatedRanks(ranks, { ...OPTIONS, ...changes })).runner;
}

/** The second one says the same again and again, so that looking it up succeeds. */
const REQUESTS = [
  [11, 7, 30, 4, 9],
  [5, 6, 7, 5, 6, 7, 5, 6, 7, 5, 6],
].map((prompt) => greedyRequest(prompt, 10));

const openCpu = (modelDir: string): Promise<StepRunner> =>
  createDecoderRunner({ modelDir, numBlocks: 24, blockSize: 16, numThreads: 1 });

async function tokensOnCpu(
  modelDir: string = MODEL,
  requests: readonly GenerateRequest[] = REQUESTS,
): Promise<number[][]> {
  const engine = engineOf(await openCpu(modelDir));
  const tokens = await generateTokens(engine, requests);
  await engine.close();
  return tokens;
}

for (const ranks of ["2x1", "1x2"]) {
  test(`an engine on emulated GPUs, ${ranks}, gives the CPU's tokens`, { skip }, async () => {
    const engine = engineOf(await openRanks(ranks));
    assert.deepEqual(await generateTokens(engine, REQUESTS), await tokensOnCpu());
    await engine.close();
  });
}

test("an engine on emulated GPUs gives the CPU's tokens with those that it looks up", { skip }, async () => {
  const engine = engineOf(await openRanks("2x1"), { speculation: { maxDraftTokens: 4, ngramSize: 2 } });
  assert.deepEqual(await generateTokens(engine, REQUESTS), await tokensOnCpu());
  assert.ok(engine.stats().acceptedDraftTokens > 0);
  await engine.close();
});

for (const [ranks, maxBytes, numLeft] of [
  // All fit on two GPUs of one layer each; of those that share layers the largest of them, and no two.
  ["1x2", 2 ** 24, 3],
  ["2x1", 90_000, 1],
] as const) {
  test(`an engine on emulated GPUs, ${ranks}, gives each request what its adapter makes`, { skip }, async () => {
    const room = { maxBytes, maxRank: 16 };
    const { texts, wanted, numLoaded } = await generateAdapted(await openRanks(ranks, { adapters: room }), room);
    assert.deepEqual(texts, wanted);
    assert.equal(numLoaded, numLeft);
  });
}

test("an engine on emulated GPUs gives the CPU's tokens with a draft model on the first of them", {
  skip,
}, async () => {
  const speculation = { maxDraftTokens: 3, ngramSize: 0 };
  const { runner, exclusive } = await openEmulatedRanks("2x1", OPTIONS);
  const gpu = new EmulatedGpu(hostCompiler(), "sm_90", exclusive);
  const drafter = new ModelDrafter(await openEmulated(gpu, OPTIONS), speculation, SIZES.maxTokens);
  const engine = engineOf(runner, { speculation }, { drafter });
  assert.deepEqual(await generateTokens(engine, REQUESTS), await tokensOnCpu());
  const { acceptedDraftTokens } = engine.stats();
  assert.ok(acceptedDraftTokens >= 10, `${acceptedDraftTokens} of 20 draft tokens accepted`);
  await engine.close();
});

test("an engine on emulated GPUs goes on from blocks that each keeps a part of in the host's memory", {
  skip,
}, async () => {
  // Keys and values of 32 elements of f32 in two layers; of all GPUs.
  const blockBytes = 2 * 2 * 32 * 4 * SIZES.blockSize;
  const runner = await openRanks("2x1", { numBlocks: 5, hostBytes: 12 * blockBytes });
  assert.equal(runner.numHostBlocks, 12);
  const { first, again, numOffloaded, numOnboarded } = await generateAgain(runner);
  assert.deepEqual(again, first);
  assert.ok(numOffloaded >= 2 && numOnboarded >= 4, `${numOffloaded} blocks went, ${numOnboarded} came back`);
});

test("a stage of layers with windows keeps the keys that layers of other stages see", { skip }, async () => {
  const modelDir = `${PARITY}models/gemma-3`;
  const prompt = Array.from({ length: 60 }, (_, i) => 3 + ((i * 37) % 240));
  const requests = [greedyRequest(prompt, 6)];
  const runner = await openRanks("1x2", { modelDir });
  assert.equal(runner.window, undefined);
  const engine = engineOf(runner);
  assert.deepEqual(await generateTokens(engine, requests), await tokensOnCpu(modelDir, requests));
  await engine.close();
});

test("an engine file of a checkpoint of two ranks runs on two emulated GPUs, and measures nothing there", {
  skip,
}, async () => {
  const folder = await mkdtemp(join(tmpdir(), "ranks-engine-"));
  after(() => rm(folder, { recursive: true }));
  const [checkpointDir, outputDir] = [join(folder, "checkpoint"), join(folder, "engine")];
  const reporter = new Reporter({ mode: "quiet", command: "build" });
  const { signal } = new AbortController();
  const mapping = { tpSize: 2, ppSize: 1, embeddingSplit: "none" } as const;
  const shared = { reporter, signal };
  await convertCheckpoint({
    modelDir: MODEL,
    outputDir: checkpointDir,
    dtype: "auto",
    mapping,
    weightOnly: undefined,
    ...shared,
  });
  assert.deepEqual(await readRankMapping(checkpointDir), { tensorParallel: 2, pipelineParallel: 1 });
  const member = new IsolatedRank({ numTensorRanks: 2, numStages: 1 });
  const alone = await openEmulated(new EmulatedGpu(hostCompiler()), { ...OPTIONS, modelDir: checkpointDir }, member);
  // Both prompts in a step, and steps of both.
  for (const lengths of [REQUESTS.map(({ promptTokens }) => promptTokens.length), [1, 1]]) {
    const parts = lengths.map((length, i) => ({
      sequence: new TestSequence([i]),
      tokens: Array<number>(length).fill(7),
    }));
    await append(alone, parts);
  }
  const measured = {
    target: cudaTarget(alone.device),
    products: alone.gemms.known,
    times: alone.gemms.measuredUs,
  };
  await alone.close();
  await writeCudaEngine({ checkpointDir, outputDir, matrices: undefined, buildConfig: {}, ...shared }, measured);
  assert.deepEqual(await readRankMapping(outputDir), { tensorParallel: 2, pipelineParallel: 1 });
  const { runner } = await openEmulatedRanks("2x1", { ...OPTIONS, modelDir: outputDir });
  const engine = engineOf(runner);
  assert.deepEqual(await generateTokens(engine, REQUESTS), await tokensOnCpu(checkpointDir));
  const { gemms } = runner.inner as DecoderCudaRunner;
  assert.ok(gemms.known.length > 0);
  assert.equal(gemms.measuredUs.size, 0);
  await engine.close();
});
