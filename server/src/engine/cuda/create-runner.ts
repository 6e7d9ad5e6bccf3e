/** Opens a model and puts it on a GPU, ready to run steps. */
import type { ElemType } from "../../../kernels/cuda/launch-args.ts";
import { CudaDevice } from "../../device/cuda/cuda-device.ts";
import { openModelFiles } from "../../formats/hf/model-files.ts";
import type { TensorSource } from "../../formats/tensors/tensor-source.ts";
import { isPackedTensors } from "../../formats/trtllm/engine-file.ts";
import { type EngineTarget, expectTarget } from "../../formats/trtllm/engine-header.ts";
import type { DecoderConfig } from "../../models/config/decoder-config.ts";
import { narrowWindows } from "../../models/config/layer-windows.ts";
import { type ParsedDecoder, parseDecoderConfig } from "../../models/config/parse-decoder-config.ts";
import type { CudaCacheType } from "../../models/cuda/pass.ts";
import { expectCudaSupport } from "../../models/cuda/supported.ts";
import type { CudaMatrixType } from "../../models/cuda/weights.ts";
import { shardDecoder } from "../../models/shard/rank-shard.ts";
import { ShardedTensors } from "../../models/shard/sharded-tensors.ts";
import { widenBlocks } from "../../models/weights/widened-tensors.ts";
import { sumBytes } from "../plan/memory-plan.ts";
import type { GroupMember } from "../ranks/rank-group.ts";
import { boundsOfSteps, type CudaDemand, type CudaSetupOptions, planCuda, RESERVE_BYTES } from "./capacity-plan.ts";
import { DecoderCudaRunner } from "./cuda-runner.ts";
import { setUpCudaDecoder } from "./setup.ts";
import type { WarmUpStore } from "./warm-up-store.ts";

export interface CudaRunnerOptions {
  readonly modelDir: string;
  /** Which GPU. */
  readonly ordinal?: number | undefined;
  readonly type?: ElemType | undefined;
  /** Type of layer matrices; undefined: as `type`. */
  readonly matrixType?: CudaMatrixType | undefined;
  /** The matrix of logits becomes FP8. */
  readonly quantizesOutput?: boolean | undefined;
  /** Type of keys and values; undefined: as `type`. */
  readonly cacheType?: CudaCacheType | undefined;
  readonly blockSize: number;
  /** 0: as many as fit. */
  readonly numBlocks: number;
  /** Share of the memory that is free once everything else is placed. */
  readonly memoryShare?: number | undefined;
  /** Bytes of the host KV cache. */
  readonly hostBytes?: number | undefined;
  /** Room for adapters: bytes of all at a time, and the largest rank. Absent: none. */
  readonly adapters?: { readonly maxBytes: number; readonly maxRank: number } | undefined;
  /** A model that will be put on the same GPU, with as many blocks: `numBlocks` does not count. */
  readonly beside?: CudaRunnerOptions | undefined;
  readonly maxPositions?: number | undefined;
  /** Tokens of one step. */
  readonly maxTokens: number;
  readonly maxSequences: number;
  readonly usesGraphs?: boolean | undefined;
  /** The result of a sequence does not depend on the others, to the bit. */
  readonly isDeterministic?: boolean | undefined;
  /** Narrower ones than the model's, for its layers in turn. */
  readonly attentionWindows?: readonly number[] | undefined;
  readonly tell?: ((line: string) => void) | undefined;
  /** Measurements of other starts of the model; absent: nothing is read or kept. */
  readonly store?: WarmUpStore | undefined;
}

type LoadOptions = Omit<CudaRunnerOptions, "modelDir" | "beside"> & { readonly beside?: CudaDemand | undefined };

/** The device and library that algorithms of GEMMs were chosen for; they mean nothing elsewhere. */
export function cudaTarget(device: Pick<CudaDevice, "arch" | "name" | "lt">): EngineTarget {
  return { device: `cuda ${device.arch} (${device.name})`, kernels: `cublaslt ${device.lt.version}` };
}

/** One of several GPUs that run the model together; made once the device is open. */
export type JoinGroup = (device: CudaDevice) => Promise<GroupMember> | GroupMember;

const DEFAULT_MEMORY_SHARE = 0.92;

/** `join`: for one of several GPUs. @throws Error naming the file, field, tensor or library that is missing */
export async function createCudaRunner(options: CudaRunnerOptions, join?: JoinGroup): Promise<DecoderCudaRunner> {
  const model = await openModelFiles(options.modelDir);
  try {
    const parsed = parseDecoderConfig(model.files);
    expectCudaSupport(parsed.config, parsed.weights);
    const device = new CudaDevice(options.ordinal ?? 0);
    const beside = options.beside && (await demandOf(device, options.beside).catch(closing(device)));
    return await loadCudaRunner(device, parsed, model.tensors, { ...options, beside }, await join?.(device));
  } finally {
    await model.tensors.close();
  }
}

/** Takes over the device, and its place in a group. */
export async function loadCudaRunner(
  device: CudaDevice,
  model: ParsedDecoder,
  files: TensorSource,
  options: LoadOptions,
  group?: GroupMember,
): Promise<DecoderCudaRunner> {
  expectCudaSupport(model.config, model.weights);
  const whole = { ...model, config: narrowWindows(model.config, options.attentionWindows) };
  const shard = group && shardDecoder(whole, (name) => files.tensors.has(name), group.place);
  const parsed = shard?.parsed ?? whole;
  const wide = widenBlocks(files);
  const source = shard === undefined ? wide : new ShardedTensors(wide, shard.slices);
  const setup = setupOptions(options, parsed.config);
  const packed = isPackedTensors(files) ? files : undefined;
  try {
    if (packed !== undefined) expectTarget(packed.target, cudaTarget(device), packed.path);
    const matrixType = options.matrixType ?? packed?.matrices;
    const ranks = group && shard && { group, shard };
    const decoder = await setUpCudaDecoder(device, parsed, source, { ...setup, ranks, matrixType });
    // The host cannot wait for a kernel that is only recorded.
    const { usesGraphs = !device.checksLaunches, isDeterministic } = options;
    const runner = new DecoderCudaRunner(device, decoder, { ...setup, usesGraphs, isDeterministic });
    const { type, quantizesOutput = false } = setup;
    options.store?.open(storeKey(device, parsed.config, { type, matrixType, quantizesOutput }), runner.gemms);
    runner.gemms.adopt(packed?.products ?? []);
    return runner;
  } catch (error) {
    device.close();
    throw error;
  }
}

/** All that the choice of algorithms depends on: what the model is, how it lies in memory, and what runs it. */
function storeKey(device: CudaDevice, config: DecoderConfig, weights: Readonly<Record<string, unknown>>): unknown {
  return { ...cudaTarget(device), driver: device.driver.version, weights, config };
}

function closing(device: CudaDevice): (error: unknown) => never {
  return (error) => {
    device.close();
    throw error;
  };
}

/** Demand of a model that is placed on the GPU later. */
async function demandOf(device: CudaDevice, options: CudaRunnerOptions): Promise<CudaDemand> {
  const { files, tensors } = await openModelFiles(options.modelDir);
  try {
    const parsed = parseDecoderConfig(files);
    const setup = setupOptions({ ...options, beside: undefined }, parsed.config);
    const { items, blockBytes } = planCuda(device, parsed, widenBlocks(tensors), setup);
    return { what: "the draft model", numBytes: sumBytes(items) + RESERVE_BYTES, blockBytes };
  } finally {
    await tensors.close();
  }
}

function setupOptions(options: LoadOptions, config: DecoderConfig): CudaSetupOptions {
  const { maxPositions } = options;
  return {
    ...options,
    ...boundsOfSteps(options),
    type: options.type ?? "bf16",
    memoryShare: options.memoryShare ?? DEFAULT_MEMORY_SHARE,
    maxPositions: Math.min(config.maxPositions, maxPositions ?? config.maxPositions),
  };
}
