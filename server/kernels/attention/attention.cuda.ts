/**
 * Causal attention over the paged cache on a GPU: one query per sequence (decode), or the last queries of each context
 * (prefill). Both read lengths on the device. A step with both kinds launches each over its part of the sequences.
 * Source: PagedAttention (Kwon et al. 2023), FlashAttention-2 (Dao 2023), FlashAttention-3 (Shah et al. 2024).
 */

import type { DevicePointer, KernelArg, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { hasWgmma } from "../cuda/device-limits.ts";
import { expectGroups, expectHeadDim, type KvCacheForm, kvDefines } from "../cuda/kv-cache-type.ts";
import type { Defines } from "../cuda/launch-args.ts";
import { ceilDiv, ELEM_BYTES, type ElemType, elemDefines, expectCount, f32, i32, ptr } from "../cuda/launch-args.ts";
import { planDecode, tileRowBytes } from "./decode-plan.ts";

export interface AttentionCudaArgs extends KvCacheForm {
  readonly type: ElemType;
  /** The query rows of these sequences, [.., qRowWidth] with the queries first. */
  readonly q: DevicePointer;
  readonly qRowWidth: number;
  readonly keys: DevicePointer; // [numBlocks, blockSize, numKvHeads * headDim]
  readonly values: DevicePointer; // likewise
  readonly contextLengths: DevicePointer; // i32 [numSequences], this step's tokens included
  readonly blockTables: DevicePointer; // i32 [numSequences, maxBlocks]
  readonly out: DevicePointer; // [.., numHeads * headDim]
  readonly numSequences: number;
  readonly maxBlocks: number;
  readonly blockSize: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly scale: number;
  readonly softCap?: number | undefined;
  /** Keys that a query sees, its own included. */
  readonly window?: number | undefined;
  /** A logit of each head that takes part in the softmax and has no value: f32 [numHeads]. */
  readonly sinks?: DevicePointer | undefined;
}

export interface DecodeAttentionCudaArgs extends AttentionCudaArgs {
  /** Row s of `q` and `out` is the query of sequence s. Sizes: `decodeWorkspaceBytes`. */
  readonly counters: DevicePointer;
  readonly partials: DevicePointer;
  /** The rows of `q` are [queries | keys | values], not yet rotated; keys and values go to their places on the way. */
  readonly rope?: DecodeRope | undefined;
}

export interface DecodeRope {
  readonly invFreq: DevicePointer; // f32 [headDim / 2]
  readonly magnitude: number;
}

/** Whether decode attention can rotate heads of that size itself: all of their elements, in bf16. */
export function supportsDecodeRope(type: ElemType, headDim: number, numDims: number): boolean {
  return type === "bf16" && numDims === headDim && headDim % 32 === 0;
}

export interface PrefillAttentionCudaArgs extends AttentionCudaArgs {
  /** i32 [numSequences + 1]: first row of each sequence's queries in `q` and `out`, and the end of the last. */
  readonly queryStarts: DevicePointer;
  /** Most queries of a sequence. */
  readonly maxQueryLength: number;
  /** One kernel whatever there is to do: what comes out for a query depends on its keys alone. */
  readonly isDeterministic?: boolean | undefined;
}

const PLAIN_THREADS = 128;
/** MIN_SPLIT_TILES of paged-decode.cu, in tokens. */
const MIN_SPLIT_TOKENS = 256;
const PREFILL_WARPS = 4;

export function launchDecodeAttention(stream: KernelStream, args: DecodeAttentionCudaArgs): void {
  expectArgs("decodeAttention", args);
  if (args.type === "f32") {
    launchPlain(stream, args, undefined, 1);
    return;
  }
  const { numSequences, numHeads, numKvHeads, headDim, blockSize, fp8 } = args;
  const shape = { numSequences, numHeads, numKvHeads, headDim, isFp8: fp8 !== undefined };
  const plan = planDecode(stream.arch, stream.numSms, shape);
  const kernel = stream.kernel({
    source: "attention/paged-decode.cu",
    name: "paged_decode",
    defines: {
      ...kvDefines(args),
      HEAD_DIM: headDim,
      BLOCK_SIZE: blockSize,
      WARPS: plan.warps,
      STAGES: plan.stages,
      ROW_HALVES: plan.rowHalves,
      ...scoreDefines(args),
      ...(args.rope === undefined ? {} : { ROPE: 1 }),
    },
    usesProgrammaticLaunch: true,
  });
  // A split that no context of these tables could reach would only come and go.
  const numSplits = Math.min(plan.numSplits, ceilDiv(args.maxBlocks * blockSize, MIN_SPLIT_TOKENS));
  const stats = args.partials + BigInt(numSequences * numHeads * numSplits * headDim * 4);
  const grid = [numSplits, numKvHeads * plan.numHeadChunks, numSequences] as const;
  stream.launch(kernel, grid, [plan.warps * 32, 1, 1], plan.sharedBytes, [
    ptr(args.q),
    ptr(args.keys),
    ptr(args.values),
    ptr(args.rope?.invFreq),
    ptr(args.contextLengths),
    ptr(args.blockTables),
    ptr(args.out),
    ptr(args.partials),
    ptr(stats),
    ptr(args.counters),
    ptr(args.sinks),
    f32(args.rope?.magnitude ?? 1),
    f32(1 / (fp8?.key ?? 1)),
    f32(1 / (fp8?.value ?? 1)),
    ...sizes(args),
  ]);
}

export function launchPrefillAttention(stream: KernelStream, args: PrefillAttentionCudaArgs): void {
  expectArgs("prefillAttention", args);
  expectCount("prefillAttention", "query", args.maxQueryLength);
  if (args.type === "f32") {
    launchPlain(stream, args, args.queryStarts, args.maxQueryLength);
    return;
  }
  if (isForGroups(stream.arch, args)) {
    launchGroups(stream, args);
    return;
  }
  const { headDim, fp8, maxQueryLength, numHeads, numSequences } = args;
  const kernel = stream.kernel({
    source: "attention/ragged-prefill.cu",
    name: "ragged_prefill",
    defines: { ...prefillDefines(args), ...scoreDefines(args) },
    usesProgrammaticLaunch: true,
  });
  const numKeys = headDim > 128 ? 32 : 64;
  const sharedBytes = 2 * 2 * numKeys * tileRowBytes(headDim, fp8 !== undefined);
  const grid = [ceilDiv(maxQueryLength, 16 * PREFILL_WARPS), numHeads, numSequences] as const;
  stream.launch(kernel, grid, [PREFILL_WARPS * 32, 1, 1], sharedBytes, prefillArgs(args, [ptr(args.sinks)]));
}

/** `others`: between the output and the sizes. */
function prefillArgs(args: PrefillAttentionCudaArgs, others: readonly KernelArg[] = []): KernelArg[] {
  return [
    ptr(args.q),
    ptr(args.keys),
    ptr(args.values),
    ptr(args.queryStarts),
    ptr(args.contextLengths),
    ptr(args.blockTables),
    ptr(args.out),
    ...others,
    ...sizes(args),
  ];
}

/** Fewer queries would leave most of a warp group's 64 rows empty. */
const WGMMA_MIN_QUERIES = 48;
const WGMMA_HEAD_DIM = 128;
const WGMMA_TILE = 128;

function isForGroups(
  arch: string,
  { headDim, window, softCap = 0, sinks, maxQueryLength, isDeterministic, isHalf }: PrefillAttentionCudaArgs,
): boolean {
  if (isDeterministic === true || isHalf === true) return false;
  const isPlain = headDim === WGMMA_HEAD_DIM && window === undefined && softCap === 0 && sinks === undefined;
  return hasWgmma(arch) && isPlain && maxQueryLength >= WGMMA_MIN_QUERIES;
}

function launchGroups(stream: KernelStream, args: PrefillAttentionCudaArgs): void {
  const { headDim, blockSize, fp8, maxQueryLength, numHeads, numSequences } = args;
  const kernel = stream.kernel({
    source: "attention/wgmma-prefill.cu",
    name: "wgmma_prefill",
    defines: { ...kvDefines(args), HEAD_DIM: headDim, BLOCK_SIZE: blockSize, ROW_HALVES: 2 },
    usesProgrammaticLaunch: true,
  });
  // Queries, two stages of keys and values, and codes on their way; and what it takes to begin at a multiple of 1024.
  const rows = WGMMA_TILE * headDim;
  const sharedBytes = 5 * 2 * rows + (fp8 === undefined ? 0 : 2 * rows) + 1024;
  const grid = [numHeads, ceilDiv(maxQueryLength, WGMMA_TILE), numSequences] as const;
  stream.launch(kernel, grid, [256, 1, 1], sharedBytes, prefillArgs(args));
}

function prefillDefines(args: AttentionCudaArgs): Defines {
  const { headDim, blockSize } = args;
  const blocksPerSm = headDim > 128 ? 1 : 2;
  return {
    ...kvDefines(args),
    HEAD_DIM: headDim,
    BLOCK_SIZE: blockSize,
    WARPS: PREFILL_WARPS,
    ROW_HALVES: 2,
    BLOCKS_PER_SM: headDim > 64 ? blocksPerSm : 3,
  };
}

function scoreDefines({ softCap = 0, sinks }: AttentionCudaArgs): Defines {
  return { ...(softCap > 0 ? { SOFT_CAP: 1 } : {}), ...sinkDefines(sinks) };
}

function sinkDefines(sinks: DevicePointer | undefined): Defines {
  return sinks === undefined ? {} : { HAS_SINKS: 1 };
}

function launchPlain(
  stream: KernelStream,
  args: AttentionCudaArgs,
  queryStarts: DevicePointer | undefined,
  maxQueryLength: number,
): void {
  const kernel = stream.kernel({
    source: "attention/plain-attention.cu",
    name: "plain_attention",
    defines: {
      ...elemDefines(args.type),
      ...kvDefines(args),
      HEAD_DIM: args.headDim,
      BLOCK_SIZE: args.blockSize,
      ...sinkDefines(args.sinks),
    },
    usesProgrammaticLaunch: true,
  });
  const grid = [maxQueryLength, args.numHeads, args.numSequences] as const;
  stream.launch(kernel, grid, [PLAIN_THREADS, 1, 1], 0, [
    ptr(args.q),
    ptr(args.keys),
    ptr(args.values),
    ptr(queryStarts),
    ptr(args.contextLengths),
    ptr(args.blockTables),
    ptr(args.out),
    ptr(args.sinks),
    ...sizes(args),
  ]);
}

/** The numbers that all three kernels end with. */
function sizes(args: AttentionCudaArgs): readonly KernelArg[] {
  const { numHeads, numKvHeads, qRowWidth, maxBlocks, window = 0, scale, softCap = 0, fp8 } = args;
  // The scale of keys is that of scores.
  const scoreScale = scale * (fp8?.key ?? 1);
  return [
    i32(numHeads),
    i32(numKvHeads),
    i32(qRowWidth),
    i32(maxBlocks),
    i32(window),
    f32(scoreScale),
    f32(softCap),
    f32(fp8?.value ?? 1),
  ];
}

function expectArgs(op: string, args: AttentionCudaArgs): void {
  const { numSequences, numHeads, numKvHeads, headDim, blockSize, qRowWidth, window } = args;
  expectCount(op, "sequence", numSequences);
  expectGroups(op, numHeads, numKvHeads);
  expectHeadDim(op, headDim);
  if (blockSize < 16 || blockSize % 16 !== 0) {
    throw new Error(`${op}: expected blocks of a multiple of 16 tokens, got ${blockSize}`);
  }
  if (qRowWidth < numHeads * headDim || (qRowWidth * ELEM_BYTES[args.type]) % 4 !== 0) {
    throw new Error(`${op}: expected rows of at least ${numHeads} heads of ${headDim}, got ${qRowWidth} elements`);
  }
  if (!(args.scale > 0)) throw new Error(`${op}: expected a scale above 0, got ${args.scale}`);
  if (window !== undefined && window < 1) throw new Error(`${op}: expected a window of at least 1, got ${window}`);
}
