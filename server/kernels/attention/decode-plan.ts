/**
 * Compile-time options and grid of the decode kernel. They depend on nothing that changes from step to step, so that a
 * captured CUDA graph stays valid; the device computes the number of splits of a context. Source: split keys of
 * FlashAttention-2 (Dao 2023).
 */
import { sharedBytesPerBlock } from "../cuda/device-limits.ts";
import { ceilDiv, roundUp } from "../cuda/launch-args.ts";

export interface DecodeShape {
  readonly numSequences: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly isFp8: boolean;
}

export interface DecodePlan {
  readonly warps: number;
  /** Tiles of a warp in shared memory: one is worked on, the others are on their way. */
  readonly stages: number;
  /** Query heads of a block, in eights. */
  readonly rowHalves: 1 | 2;
  readonly numHeadChunks: number;
  readonly numSplits: number;
  readonly sharedBytes: number;
}

export interface DecodeWorkspaceBytes {
  /** i32, zeros before the first launch; each launch leaves zeros. */
  readonly counters: number;
  readonly partials: number;
}

const TILE = 16;
/** Warps and stages to choose from, best first. */
const FORMS: readonly (readonly [warps: number, stages: number])[] = [
  [4, 4],
  [4, 3],
  [4, 2],
  [2, 2],
];
/** Bytes in flight on an SM come from this many blocks. */
const BLOCKS_PER_SM = 2;
/** Contexts differ in length, so that several rounds of blocks even out. */
const ROUNDS = 4;
const MAX_SPLITS = 64;
/** With fewer, too few bytes are in flight. */
const MIN_STAGES = 3;
/** Shared memory of a block beside its dynamic part. */
const STATIC_BYTES = 2048;

export function planDecode(arch: string, numSms: number, shape: DecodeShape): DecodePlan {
  const { numSequences, numHeads, numKvHeads, headDim, isFp8 } = shape;
  const group = numHeads / numKvHeads;
  const rowHalves = group <= 8 ? 1 : 2;
  const numHeadChunks = ceilDiv(group, 8 * rowHalves);
  const budget = Math.floor(sharedBytesPerBlock(arch) / BLOCKS_PER_SM) - 1024;
  const bytesOf = ([warps, stages]: readonly [number, number]): number =>
    Math.max(
      warps * stages * 2 * TILE * tileRowBytes(headDim, isFp8),
      warps * 8 * rowHalves * (tileWidth(headDim) + 8 + 2) * 4, // memory in which the warps' sums are reduced
    );
  const numBlocks = numSequences * numKvHeads * numHeadChunks;
  const fitting = FORMS.filter((candidate) => bytesOf(candidate) <= budget);
  // Rounds of blocks, where each sequence is one split.
  const roundsOf = (candidate: readonly [number, number]): number => {
    const perSm = Math.floor((sharedBytesPerBlock(arch) + 1024) / (bytesOf(candidate) + STATIC_BYTES));
    return ceilDiv(numBlocks, perSm * numSms);
  };
  const form =
    fitting.find(([warps, stages]) => stages >= MIN_STAGES && warps === 4 && roundsOf([warps, stages]) === 1) ??
    fitting[0] ??
    ([2, 2] as const);
  const wanted = ceilDiv(ROUNDS * BLOCKS_PER_SM * numSms, numBlocks);
  const [warps, stages] = form;
  const numSplits = Math.min(MAX_SPLITS, wanted);
  return { warps, stages, rowHalves, numHeadChunks, numSplits, sharedBytes: bytesOf(form) };
}

/** Workspace of `launchDecodeAttention` for this shape and all with fewer sequences. */
export function decodeWorkspaceBytes(arch: string, numSms: number, shape: DecodeShape): DecodeWorkspaceBytes {
  let partials = 0;
  let counters = 0;
  // Fewer sequences have more splits each.
  for (let numSequences = 1; numSequences <= shape.numSequences; numSequences++) {
    const { numSplits, numHeadChunks } = planDecode(arch, numSms, { ...shape, numSequences });
    partials = Math.max(partials, numSequences * shape.numHeads * numSplits * (shape.headDim + 2) * 4);
    counters = Math.max(counters, numSequences * shape.numKvHeads * numHeadChunks * 4);
  }
  return { counters, partials };
}

/** A row of a tile in shared memory: an odd number of 16-byte chunks keeps eight rows in different banks. */
export function tileRowBytes(headDim: number, isFp8: boolean): number {
  const chunks = (tileWidth(headDim) * (isFp8 ? 1 : 2)) / 16;
  return 16 * (chunks % 2 === 0 ? chunks + 1 : chunks);
}

/** Products take heads by sixteen elements. */
function tileWidth(headDim: number): number {
  return roundUp(headDim, 16);
}
