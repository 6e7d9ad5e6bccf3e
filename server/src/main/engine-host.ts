/**
 * The program in its other role: one engine in a process of its own, fed over an inherited socket. Composition root of
 * that process; it knows which runner belongs to which device, and nothing of requests.
 */
import { Socket } from "node:net";
import process from "node:process";
import { invalidArgument } from "../core/server-error.ts";
import { chooseEngine } from "../engine/choose-engine.ts";
import { createDecoderRunner, DecoderCpuRunner } from "../engine/cpu/cpu-runner.ts";
import { createCpuDraftHead, findDraftHead } from "../engine/cpu/draft-head.ts";
import { planCpuMemory } from "../engine/cpu/memory-demand.ts";
import { withChosenType } from "../engine/cpu/stored-type.ts";
import type { CudaRunnerOptions } from "../engine/cuda/create-runner.ts";
import { cudaRunnerOptions, draftOptions, followerOptions } from "../engine/cuda/runner-options.ts";
import { warmUp } from "../engine/cuda/warm-up.ts";
import { WarmUpStore } from "../engine/cuda/warm-up-store.ts";
import { numSnapshotsOf } from "../engine/engine-config.ts";
import type { EngineSpec, GpuSpec } from "../engine/engine-spec.ts";
import { HOST_SOCKET_FD } from "../engine/host/host-process.ts";
import { serveEngine } from "../engine/host/serve-engine.ts";
import type { RankTask } from "../engine/ranks/follow.ts";
import { awaitRanks } from "../engine/ranks/network-followers.ts";
import { startThread } from "../engine/ranks/thread-follower.ts";
import type { Drafter } from "../engine/speculation/drafter.ts";
import { HeadDrafter, spareBlocksFor } from "../engine/speculation/head-drafter.ts";
import { ModelDrafter } from "../engine/speculation/model-drafter.ts";
import type { StepRunner } from "../engine/step-runner.ts";

/** Tokens of a cache block: small blocks waste little on short sequences and share short prefixes. */
const BLOCK_SIZE = 16;
/** Enough for the GEMMs of most models; the next start takes them from the cache. */
const DEFAULT_WARM_UP_SECONDS = 30;

async function createRunner(spec: EngineSpec): Promise<StepRunner> {
  const { engine, path, reason } = await chooseEngine(spec.modelDir, spec.engineName, spec.gpu !== undefined);
  const headDir = await findDraftHead(spec);
  if (headDir !== undefined && (engine === "llama.cpp" || spec.gpu !== undefined)) throw noHeads(headDir);
  if (engine === "llama.cpp") return createOtherRunner(spec, path, reason);
  if (spec.gpu !== undefined) return createGpuRunner(spec, spec.gpu);
  const { weightType } = await withChosenType(spec, tell);
  const { numBlocks, numHostBlocks, numEncoders, lines } = await planCpuMemory({ ...spec, weightType }, BLOCK_SIZE);
  for (const line of lines) tell(line);
  return createDecoderRunner({
    modelDir: spec.modelDir,
    blockSize: BLOCK_SIZE,
    numBlocks,
    numHostBlocks,
    numThreads: spec.numThreads > 0 ? spec.numThreads : undefined,
    weightType,
    cacheType: spec.kvCache?.type,
    attentionWindows: spec.kvCache?.attentionWindows,
    isDeterministic: spec.isDeterministic,
    isReadyForPrompts: spec.warmUpSeconds !== 0,
    numStates: numEncoders ?? spec.engine.maxSequences,
    numSnapshots: numSnapshotsOf(spec.engine),
  });
}

/** The code for libllama is loaded for its models alone. */
async function createOtherRunner(spec: EngineSpec, path: string, reason: string): Promise<StepRunner> {
  const { createLlamaRunner } = await import("../engine/llama/create-runner.ts");
  return createLlamaRunner(spec, { path, reason, blockSize: BLOCK_SIZE, tell });
}

/** Threads of other GPUs may wait for one that failed: an end that waits for them would not come. */
let hasRanks = false;

/** The first of the GPUs is this thread's, each other has one of its own. */
function createGpuRunner(spec: EngineSpec, gpu: GpuSpec): Promise<StepRunner> {
  return openWarm(spec, cudaRunnerOptions(spec, gpu, tell), (options) => openGpuRunner(options, gpu));
}

/** The code for GPUs is loaded for GPUs alone. */
async function createCudaRunner(options: CudaRunnerOptions): Promise<StepRunner> {
  const create = await import("../engine/cuda/create-runner.ts");
  return create.createCudaRunner(options);
}

/** With the first steps of every kind done. */
async function openWarm(
  spec: EngineSpec,
  given: CudaRunnerOptions,
  open: (options: CudaRunnerOptions) => Promise<StepRunner>,
): Promise<StepRunner> {
  const store = new WarmUpStore();
  const runner = await open({ ...given, store });
  const { maxTokens, maxSequences } = given;
  const seconds = spec.warmUpSeconds ?? DEFAULT_WARM_UP_SECONDS;
  try {
    await warmUp(runner, { maxTokens, maxSequences, seconds, store, tell });
  } catch (error) {
    await runner.close();
    throw error;
  }
  return runner;
}

async function openGpuRunner(options: CudaRunnerOptions, gpu: GpuSpec): Promise<StepRunner> {
  const { ranks } = gpu;
  if (ranks === undefined) return createCudaRunner(options);
  hasRanks = true;
  const { createRankedRunner } = await import("../engine/ranks/ranked-runner.ts");
  const layout = { numTensorRanks: ranks.numTensorRanks, numStages: ranks.numStages };
  const taskOf = (rank: number, ordinal: number): RankTask => ({
    rank,
    layout,
    options: followerOptions(options, ordinal),
  });
  const { network } = ranks;
  const followers =
    network === undefined
      ? ranks.ordinals.slice(1).map((ordinal, i) => startThread(taskOf(i + 1, ordinal)))
      : await awaitRanks(network, layout.numTensorRanks * layout.numStages, (rank) => taskOf(rank, 0));
  return createRankedRunner(options, layout, followers);
}

function tell(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function createDraftRunner(spec: EngineSpec, modelDir: string, numBlocks: number): Promise<StepRunner> {
  const { engine, path, reason } = await chooseEngine(modelDir);
  if (engine === "llama.cpp") {
    const draft = {
      ...spec,
      modelDir,
      weightType: undefined,
      kvCache: undefined,
      kvCacheTokens: numBlocks * BLOCK_SIZE,
    };
    return createOtherRunner(draft, path, reason);
  }
  if (spec.gpu !== undefined) return openWarm(spec, draftOptions(spec, spec.gpu, numBlocks), createCudaRunner);
  return createDecoderRunner({
    modelDir,
    blockSize: BLOCK_SIZE,
    numBlocks,
    numThreads: spec.numThreads > 0 ? spec.numThreads : undefined,
    weightType: spec.weightType,
  });
}

function noHeads(headDir: string): Error {
  return invalidArgument(`the draft head in ${headDir} needs a model on the CPU in engine nereid: take a draft model`);
}

async function createHeadDrafter(spec: EngineSpec, headDir: string, model: StepRunner): Promise<Drafter> {
  if (!(model instanceof DecoderCpuRunner)) throw noHeads(headDir);
  const { speculation, maxSequences, maxBatchTokens } = spec.engine;
  const numSpareBlocks = maxSequences * spareBlocksFor(speculation, BLOCK_SIZE);
  const head = await createCpuDraftHead(model, { headDir, weightType: spec.weightType, numSpareBlocks });
  return new HeadDrafter(head, model, speculation, maxBatchTokens);
}

/** The small model has as many blocks as the large one, so that it can follow every sequence. */
async function createDrafter(spec: EngineSpec, model: StepRunner): Promise<Drafter | undefined> {
  const headDir = await findDraftHead(spec);
  if (headDir !== undefined) return createHeadDrafter(spec, headDir, model);
  if (spec.draftModelDir === undefined) return undefined;
  const { numBlocks, vocabSize } = model;
  const runner = await createDraftRunner(spec, spec.draftModelDir, numBlocks);
  if (runner.encoder !== undefined) {
    await runner.close();
    throw invalidArgument(`the draft model in ${spec.draftModelDir} has an encoder: expected a decoder alone`);
  }
  if (runner.vocabSize === vocabSize)
    return new ModelDrafter(runner, spec.engine.speculation, spec.engine.maxBatchTokens);
  await runner.close();
  throw invalidArgument(
    `the draft model in ${spec.draftModelDir} has a vocabulary of ${runner.vocabSize}, expected ${vocabSize} as the model's`,
  );
}

// Signals to the process group are the server's to answer: it closes the socket when this process is to end.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);
serveEngine({
  socket: new Socket({ fd: HOST_SOCKET_FD }),
  createRunner,
  createDrafter,
  exit: (code) => (code !== 0 && hasRanks ? process.kill(process.pid, "SIGKILL") : process.exit(code)),
  // process.exit() joins libuv's threads (Node.js, DefaultProcessExitHandler). A step on one of them that calls back into this thread
  // waits for it: neither would end, and the model's memory would stay taken.
  serverGone: () => process.kill(process.pid, "SIGKILL"),
});
