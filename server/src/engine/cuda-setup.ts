/**
 * Puts a decoder on a GPU: counts what it takes, says so, allocates, loads. What is left of the memory becomes the paged
 * cache unless its size is given. It runs no step.
 */
import { isHeadDim } from "../../kernels/cuda/kv-cache-type.ts";
import type { ElemType } from "../../kernels/cuda/launch-args.ts";
import type { CudaDevice } from "../device/cuda/cuda-device.ts";
import type { CudaBuffer } from "../device/cuda/cuda-memory.ts";
import { CUDA_TYPE_BYTES, layOut, tensorBytes } from "../device/cuda/cuda-tensor.ts";
import { PRODUCT_WORKSPACE_BYTES } from "../device/cuda/dense-products.ts";
import type { TensorSource } from "../formats/tensor-source.ts";
import type { DecoderConfig } from "../models/decoder-config.ts";
import { attentionScratch } from "../models/decoder-cuda-attention.ts";
import { placeExperts, planExperts } from "../models/decoder-cuda-experts-memory.ts";
import { placeInt4Scratch, planInt4Scratch } from "../models/decoder-cuda-int4.ts";
import {
  type CudaActivations,
  cacheBlockBytes,
  placeActivations,
  planActivations,
  type StepBounds,
} from "../models/decoder-cuda-memory.ts";
import type { CudaCacheType, CudaDecoderModel, CudaLayerCache, CudaRope } from "../models/decoder-cuda-pass.ts";
import { vocabularyPartsBytes } from "../models/decoder-cuda-ranks.ts";
import {
  type CudaMatrixType,
  type CudaWeights,
  loadCudaWeights,
  planCudaWeights,
} from "../models/decoder-cuda-weights.ts";
import type { ParsedDecoder } from "../models/parse-decoder-config.ts";
import type { RankShard } from "../models/rank-shard.ts";
import { type RopeFactors, ropeFactors } from "../models/rope-factors.ts";
import { describeBlocks } from "../models/widened-tensors.ts";
import type { RankGroup } from "./ranks/rank-group.ts";

export interface CudaSetupOptions extends StepBounds {
  /** Of weights and activations. */
  readonly type: ElemType;
  /** Of the matrices of layers; undefined: the same. */
  readonly matrixType?: CudaMatrixType | undefined;
  /** Of keys and values; undefined: as `type`. */
  readonly cacheType?: CudaCacheType | undefined;
  readonly blockSize: number;
  /** 0: as many as fit into `memoryShare` of what is free once all else is placed. */
  readonly numBlocks: number;
  readonly memoryShare: number;
  /** Longest sequence, at most what the model allows. */
  readonly maxPositions: number;
  /** Told the plan, line by line, before anything is allocated. */
  readonly tell?: ((line: string) => void) | undefined;
  /** Where other GPUs run the same model: the group, and what of the model is this GPU's. */
  readonly ranks?: { readonly group: RankGroup; readonly shard: RankShard } | undefined;
}

export interface CudaDecoder {
  readonly model: CudaDecoderModel;
  readonly memory: CudaActivations;
  /** Of the device: weights, activations, cache. */
  readonly numBytes: number;
  close(): void;
}

/** Left to the driver, to cuBLASLt and to the recorded graphs. */
const RESERVE_BYTES: number = PRODUCT_WORKSPACE_BYTES + (1024 << 20);

/** @throws Error that says what is missing: a tensor, or memory */
export async function setUpCudaDecoder(
  device: CudaDevice,
  parsed: ParsedDecoder,
  files: TensorSource,
  options: CudaSetupOptions,
): Promise<CudaDecoder> {
  const { config } = parsed;
  const { type, blockSize, cacheType = type } = options;
  expectRunnable(config);
  const plan = planCudaWeights(parsed, files, type, options.matrixType);
  const scratch = attentionScratch(config, options.maxSequences, cacheType, device);
  const activations = planActivations(config, type, options, scratch.numBytes);
  const blockBytes = cacheBlockBytes(config, blockSize, CUDA_TYPE_BYTES[cacheType]);
  const int4 = planInt4Scratch(device, plan.int4Shapes, options.maxTokens);
  const experts = planExperts(config, type, options.maxTokens);
  const { ranks } = options;
  const partsBytes =
    ranks === undefined ? 0 : vocabularyPartsBytes(ranks.shard, ranks.group.place, options.maxLogitRows);
  const workBytes = activations.numBytes + (int4?.numBytes ?? 0) + partsBytes + (experts?.numBytes ?? 0);
  const affordable = chooseBlocks(device, plan.numBytes + workBytes, blockBytes, options);
  const numBlocks = ranks?.group.least(affordable) ?? affordable;
  tellPlan(device, options, [
    [weightsLabel(describeBlocks(plan.placed, files)), plan.numBytes],
    ["activations", activations.numBytes],
    ...(int4 === undefined ? [] : [["products of 4-bit weights", int4.numBytes] as const]),
    ...(experts === undefined ? [] : [["experts", experts.numBytes] as const]),
    ...(partsBytes === 0 ? [] : [["logits of all GPUs", partsBytes] as const]),
    [`cache of ${numBlocks} blocks of ${blockSize} tokens in ${cacheType}`, numBlocks * blockBytes],
    ["left to products, graphs and the driver", RESERVE_BYTES],
  ]);
  const buffers: CudaBuffer[] = [];
  let weights: CudaWeights | undefined;
  try {
    weights = await loadCudaWeights(device, parsed, files, plan);
    buffers.push(device.allocate("activations", workBytes));
    buffers.push(device.allocate("the cache of keys and values", numBlocks * blockBytes));
    const [work, cache] = buffers;
    if (work === undefined || cache === undefined) throw new Error("expected two buffers");
    device.stream.fill(work.address, 0, work.numBytes);
    const servedPositions = Math.min(options.maxPositions, numBlocks * blockSize);
    const ropes = config.ropes.map((rope) => ropeFactors(rope, servedPositions));
    const tables = uploadRopes(device, config, ropes);
    buffers.push(tables.buffer);
    const caches = splitCache(config, cache, blockSize * numBlocks, CUDA_TYPE_BYTES[cacheType]);
    return {
      model: {
        config,
        type,
        weights: ranks === undefined ? weights : withOwnOutput(weights, ranks.shard),
        ropes: tables.ropes,
        caches,
        cacheType,
        blockSize,
        numBlocks,
        attentionCountersBytes: scratch.countersBytes,
        int4: int4 && placeInt4Scratch(int4, work.address + BigInt(activations.numBytes)),
        experts: experts && placeExperts(experts, work.address + BigInt(workBytes - experts.numBytes)),
        ranks: ranks?.group,
        share: ranks && {
          ...ranks.shard,
          parts: work.address + BigInt(activations.numBytes + (int4?.numBytes ?? 0)),
        },
      },
      memory: placeActivations(activations, work.address),
      numBytes: buffers.reduce((sum, buffer) => sum + buffer.numBytes, weights.numBytes),
      close: closer(buffers, weights, ranks?.group),
    };
  } catch (error) {
    closer(buffers, weights, ranks?.group)();
    throw error;
  }
}

/** An embedding that is the output too lies whole on each GPU; each makes logits with its own rows. */
function withOwnOutput(weights: CudaWeights, { vocabulary }: RankShard): CudaWeights {
  const { weight } = weights.output;
  const [numRows, hiddenSize = 0] = weight.shape;
  if (weight !== weights.embedding || numRows === vocabulary.count) return weights;
  const address = weight.address + BigInt(tensorBytes(weight.type, [vocabulary.first, hiddenSize]));
  return {
    ...weights,
    output: { ...weights.output, weight: { ...weight, address, shape: [vocabulary.count, hiddenSize] } },
  };
}

function weightsLabel(blocks: string): string {
  return blocks === "" ? "weights" : `weights (in blocks: ${blocks})`;
}

/** Said before anything is loaded. */
function expectRunnable({ headDim }: DecoderConfig): void {
  if (isHeadDim(headDim)) return;
  throw new Error(
    `models with heads of ${headDim} elements do not run on GPUs: serve this one with an instance group of KIND_CPU`,
  );
}

function closer(
  buffers: readonly CudaBuffer[],
  weights: CudaWeights | undefined,
  group: RankGroup | undefined,
): () => void {
  return () => {
    group?.close();
    for (const buffer of buffers) buffer.close();
    weights?.close();
  };
}

/** @throws Error when not even two blocks fit */
function chooseBlocks(
  device: CudaDevice,
  otherBytes: number,
  blockBytes: number,
  { numBlocks, memoryShare, maxPositions, blockSize }: CudaSetupOptions,
): number {
  const { freeBytes } = device.memory();
  const room = Math.floor((freeBytes - otherBytes - RESERVE_BYTES) * (numBlocks > 0 ? 1 : memoryShare));
  const affordable = Math.floor(room / blockBytes);
  const wanted = numBlocks > 0 ? numBlocks : affordable;
  if (affordable >= 2 && wanted <= affordable) return wanted;
  throw new Error(
    `GPU ${device.ordinal} (${device.name}) has ${freeBytes} bytes free: after ${otherBytes} for weights and activations ` +
      `and ${RESERVE_BYTES} in reserve there is no room for a cache of ${Math.max(2, wanted)} blocks of ${blockBytes} bytes ` +
      `(${blockSize} tokens; the longest sequence has ${maxPositions})`,
  );
}

function tellPlan(
  device: CudaDevice,
  { tell }: CudaSetupOptions,
  parts: readonly (readonly [what: string, numBytes: number])[],
): void {
  if (tell === undefined) return;
  const { freeBytes, totalBytes } = device.memory();
  const gib = (numBytes: number): string => `${(numBytes / 2 ** 30).toFixed(2)} GiB`;
  tell(`GPU ${device.ordinal} (${device.name}, ${device.arch}): ${gib(freeBytes)} of ${gib(totalBytes)} free`);
  for (const [what, numBytes] of parts) tell(`  ${gib(numBytes)} ${what}`);
}

/** Layer by layer, keys before values. */
function splitCache(
  { numLayers, numKvHeads, headDim }: DecoderConfig,
  cache: CudaBuffer,
  numSlots: number,
  elementBytes: number,
): readonly CudaLayerCache[] {
  const bytes = BigInt(numSlots * numKvHeads * headDim * elementBytes);
  return Array.from({ length: numLayers }, (_, i) => {
    const keys = cache.address + BigInt(2 * i) * bytes;
    return { keys, values: keys + bytes };
  });
}

function uploadRopes(
  device: CudaDevice,
  { ropes }: DecoderConfig,
  factors: readonly RopeFactors[],
): { readonly ropes: readonly CudaRope[]; readonly buffer: CudaBuffer } {
  const tables = ropes.map(({ theta, numDims }, r) =>
    Float32Array.from({ length: numDims / 2 }, (_, i) => {
      const divisor = factors[r]?.divisors?.[i] ?? 1;
      return theta ** ((-2 * i) / numDims) / divisor;
    }),
  );
  const { offsets, numBytes } = layOut(tables.map(({ byteLength }) => byteLength));
  const buffer = device.allocate("rotary tables", Math.max(4, numBytes));
  for (const [i, table] of tables.entries()) {
    device.stream.copyToDevice(buffer.address + BigInt(offsets[i] ?? 0), table, table.byteLength);
  }
  device.stream.synchronize();
  return {
    ropes: ropes.map(({ numDims }, i) => ({
      invFreq: buffer.address + BigInt(offsets[i] ?? 0),
      numDims,
      magnitude: factors[i]?.magnitude ?? 1,
    })),
    buffer,
  };
}
