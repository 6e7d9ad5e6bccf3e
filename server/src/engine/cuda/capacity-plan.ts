/**
 * Memory of a decoder on the GPU, and of the host KV cache: counted before anything is allocated, and logged in lines.
 * The paged cache gets the rest of the GPU, unless its size is given.
 */
import { isHeadDim } from "../../../kernels/cuda/kv-cache-type.ts";
import { type ElemType, roundUp } from "../../../kernels/cuda/launch-args.ts";
import { loraLowBytes } from "../../../kernels/lora/lora.cuda.ts";
import { ServerError } from "../../core/server-error.ts";
import { freeMemory } from "../../device/cpu/free-memory.ts";
import type { CudaDevice } from "../../device/cuda/cuda-device.ts";
import { CUDA_TYPE_BYTES } from "../../device/cuda/cuda-tensor.ts";
import { GEMM_WORKSPACE_BYTES, gemmRows, PIECE_ROWS } from "../../device/cuda/dense-gemm.ts";
import { planRegions, type RegionPlan } from "../../device/cuda/regions.ts";
import type { TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { DecoderConfig } from "../../models/config/decoder-config.ts";
import { kvBytesPerToken } from "../../models/config/kv-bytes.ts";
import { widestWindow } from "../../models/config/layer-windows.ts";
import type { ParsedDecoder } from "../../models/config/parse-decoder-config.ts";
import { type AttentionScratch, attentionScratch } from "../../models/cuda/attention.ts";
import { type ExpertsPlan, planExperts } from "../../models/cuda/experts-memory.ts";
import { type Int4Scratch, planInt4Scratch } from "../../models/cuda/int4.ts";
import { type ActivationsPlan, planActivations, type StepBounds } from "../../models/cuda/memory.ts";
import type { CudaCacheType } from "../../models/cuda/pass.ts";
import { vocabularyPartsBytes } from "../../models/cuda/ranks.ts";
import { type CudaMatrixType, type CudaWeightsPlan, planCudaWeights } from "../../models/cuda/weights.ts";
import type { RankShard } from "../../models/shard/rank-shard.ts";
import { describeBlocks } from "../../models/weights/widened-tensors.ts";
import { fitBlocks, type MemoryItem, sumBytes } from "../plan/memory-plan.ts";
import type { GroupMember } from "../ranks/rank-group.ts";
import { BLOCK_STAGES } from "./host-kv-cache.ts";

export interface CudaSetupOptions extends StepBounds {
  /** Type of weights and activations. */
  readonly type: ElemType;
  /** Type of layer matrices; undefined: the same. */
  readonly matrixType?: CudaMatrixType | undefined;
  /** The matrix of logits becomes FP8. */
  readonly quantizesOutput?: boolean | undefined;
  /** Type of keys and values; undefined: as `type`. */
  readonly cacheType?: CudaCacheType | undefined;
  readonly blockSize: number;
  /** 0: as many as fit into `memoryShare` of what is free once all else is placed. */
  readonly numBlocks: number;
  readonly memoryShare: number;
  /** Bytes of the host KV cache; GPUs that run the model together divide it. */
  readonly hostBytes?: number | undefined;
  /** Longest sequence, at most what the model allows. */
  readonly maxPositions: number;
  readonly isDeterministic?: boolean | undefined;
  /** Told the plan, line by line, before anything is allocated. */
  readonly tell?: ((line: string) => void) | undefined;
  /** Room for adapters: bytes of all that are loaded at a time, and the largest rank. Absent: there are none. */
  readonly adapters?: { readonly maxBytes: number; readonly maxRank: number } | undefined;
  /** Other data that will be placed on the GPU, some of it for each cache block. */
  readonly beside?: CudaDemand | undefined;
  /** Present if other GPUs run the same model: the group, and this GPU's share of the model. */
  readonly ranks?: { readonly group: GroupMember; readonly shard: RankShard } | undefined;
}

export interface CudaDemand {
  readonly what: string;
  readonly numBytes: number;
  readonly blockBytes: number;
}

/** Workspaces in one allocation, in this order. */
type Workspace = "activations" | "int4" | "vocabularyParts" | "experts" | "lora";

/** All that a decoder takes of a GPU's memory, and of the host's for the host KV cache. */
export interface CudaPlan {
  readonly weights: CudaWeightsPlan;
  readonly scratch: AttentionScratch;
  readonly workspaces: RegionPlan<Workspace>;
  /** Within their workspaces. */
  readonly activations: ActivationsPlan;
  readonly int4: Int4Scratch | undefined;
  readonly experts: ExpertsPlan | undefined;
  readonly blockBytes: number;
  readonly numHostBlocks: number;
  /** All that is not the cache: weights, workspaces and what is placed beside them. */
  readonly items: readonly MemoryItem[];
}

/** Left to the driver, to cuBLASLt and to the recorded graphs. */
export const RESERVE_BYTES: number = GEMM_WORKSPACE_BYTES + (1024 << 20);

/** More rows are made in turns, so that their logits need not all fit at once. */
const MAX_LOGIT_ROWS = 256;

/** Bounds of a step's memory. Steps are padded, in numbers of sequences and in the pieces of deterministic GEMMs. */
export function boundsOfSteps({
  maxTokens,
  maxSequences: mostSequences,
  isDeterministic,
}: Pick<CudaSetupOptions, "maxTokens" | "maxSequences" | "isDeterministic">): StepBounds {
  const step = isDeterministic === true ? PIECE_ROWS : 1;
  const maxSequences = gemmRows(mostSequences);
  return {
    maxTokens: roundUp(Math.max(maxTokens, maxSequences), step),
    maxSequences,
    maxLogitRows: roundUp(Math.max(MAX_LOGIT_ROWS, maxSequences), step),
  };
}

/** @throws Error for a model that does not run on GPUs, or misses a tensor */
export function planCuda(
  device: Pick<CudaDevice, "arch" | "numSms">,
  parsed: ParsedDecoder,
  files: TensorSource,
  options: CudaSetupOptions,
): CudaPlan {
  const { config } = parsed;
  const { type, blockSize, cacheType = type, ranks, adapters, beside } = options;
  expectRunnable(config);
  const weights = planCudaWeights(parsed, files, type, {
    layers: options.matrixType,
    quantizesOutput: options.quantizesOutput,
  });
  const scratch = attentionScratch(config, options.maxSequences, cacheType, device);
  const activations = planActivations(config, type, options, scratch.numBytes);
  const int4 = planInt4Scratch(device, weights.int4Shapes, options.maxTokens, options.isDeterministic);
  const experts = planExperts(config, type, options.maxTokens);
  const sizes = {
    activations: activations.numBytes,
    int4: int4?.numBytes ?? 0,
    vocabularyParts:
      ranks === undefined ? 0 : vocabularyPartsBytes(ranks.shard, ranks.group.place, options.maxLogitRows),
    experts: experts?.numBytes ?? 0,
    lora: adapters === undefined ? 0 : loraLowBytes(options.maxTokens, adapters.maxRank),
  };
  const blockBytes = blockSize * kvBytesPerToken(config, CUDA_TYPE_BYTES[cacheType]);
  const numHostBlocks = hostBlocks(config, blockBytes, options);
  // Staging blocks of transfers to the host's memory and back.
  const stagingBytes = numHostBlocks === 0 ? 0 : BLOCK_STAGES * blockBytes;
  const items: readonly MemoryItem[] = [
    { what: weightsLabel(describeBlocks(weights.placed, files)), numBytes: weights.numBytes },
    { what: "activations", numBytes: sizes.activations },
    { what: "GEMMs of INT4 weights", numBytes: sizes.int4 },
    { what: "experts", numBytes: sizes.experts },
    { what: "logits of all GPUs", numBytes: sizes.vocabularyParts },
    { what: `adapters of ranks up to ${adapters?.maxRank}, as they are loaded`, numBytes: adapters?.maxBytes ?? 0 },
    { what: "rows with adapters", numBytes: sizes.lora },
    { what: "staging blocks of the host KV cache", numBytes: stagingBytes },
    { what: beside?.what ?? "", numBytes: beside?.numBytes ?? 0 },
  ];
  return {
    ...{ weights, scratch, workspaces: planRegions<Workspace>(sizes), activations, int4, experts },
    ...{ blockBytes, numHostBlocks },
    items: items.filter(({ numBytes }, i) => i < 2 || numBytes > 0),
  };
}

/** Window models get no host KV cache: most of a prefix is not needed to continue from it. */
function hostBlocks(
  config: DecoderConfig,
  blockBytes: number,
  { hostBytes = 0, ranks, tell }: CudaSetupOptions,
): number {
  if (hostBytes === 0) return 0;
  const window = widestWindow(ranks?.shard.whole ?? config);
  if (window !== undefined) {
    tell?.(`kv_cache_host_memory_bytes has no effect: all layers have windows, of ${window} tokens at most`);
    return 0;
  }
  const freeBytes = freeMemory();
  const { numTensorRanks = 1, numStages = 1 } = ranks?.group.place ?? {};
  if (hostBytes <= freeBytes) return Math.floor(hostBytes / (numTensorRanks * numStages) / blockBytes);
  throw new ServerError(
    "unavailable",
    `kv_cache_host_memory_bytes is ${hostBytes}, and the host has ${freeBytes} bytes free: ask for less`,
  );
}

/** Said before anything is loaded. */
function expectRunnable({ headDim }: DecoderConfig): void {
  if (isHeadDim(headDim)) return;
  throw new Error(
    `models with heads of ${headDim} elements do not run on GPUs: serve this one with an instance group of KIND_CPU`,
  );
}

function weightsLabel(blocks: string): string {
  return blocks === "" ? "weights" : `weights (in blocks: ${blocks})`;
}

/** @throws Error when not even two blocks fit */
export function chooseBlocks(
  device: Pick<CudaDevice, "ordinal" | "name" | "memory">,
  plan: Pick<CudaPlan, "items" | "blockBytes">,
  { numBlocks, memoryShare, maxPositions, blockSize, beside }: CudaSetupOptions,
): number {
  const { freeBytes } = device.memory();
  const blockBytes = plan.blockBytes + (beside?.blockBytes ?? 0);
  const room = { items: plan.items, reserveBytes: RESERVE_BYTES, blockBytes };
  const { wanted, fits } = fitBlocks(room, { numBlocks, share: memoryShare }, freeBytes);
  if (fits) return wanted;
  throw new Error(
    `GPU ${device.ordinal} (${device.name}) has ${freeBytes} bytes free: after ${sumBytes(plan.items)} for weights and ` +
      `activations and ${RESERVE_BYTES} in reserve there is no room for a cache of ${Math.max(2, wanted)} blocks of ` +
      `${blockBytes} bytes (${blockSize} tokens; the longest sequence has ${maxPositions})`,
  );
}

export function describePlan(
  device: Pick<CudaDevice, "ordinal" | "name" | "arch" | "memory">,
  { items, blockBytes, numHostBlocks }: CudaPlan,
  numBlocks: number,
  { tell, blockSize, type, cacheType = type, beside }: CudaSetupOptions,
): void {
  if (tell === undefined) return;
  const { freeBytes, totalBytes } = device.memory();
  const gib = (numBytes: number): string => `${(numBytes / 2 ** 30).toFixed(2)} GiB`;
  tell(`GPU ${device.ordinal} (${device.name}, ${device.arch}): ${gib(freeBytes)} of ${gib(totalBytes)} free`);
  const cache = `cache of ${numBlocks} blocks of ${blockSize} tokens in ${cacheType}`;
  const besideBytes = numBlocks * (beside?.blockBytes ?? 0);
  for (const [what, numBytes] of [
    ...items.map(({ what, numBytes }) => [what, numBytes] as const),
    [cache, numBlocks * blockBytes] as const,
    ...(besideBytes === 0 ? [] : [[`${beside?.what}: as many blocks`, besideBytes] as const]),
    ["left to GEMMs, graphs and the driver", RESERVE_BYTES] as const,
  ]) {
    tell(`  ${gib(numBytes)} ${what}`);
  }
  if (numHostBlocks > 0) {
    tell(`  host KV cache in pinned memory: ${gib(numHostBlocks * blockBytes)}, ${numHostBlocks} blocks`);
  }
}
