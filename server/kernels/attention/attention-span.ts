/**
 * Decides how attention reads one sequence's blocks: as one range of the cache when they are contiguous, else slot by
 * slot. Pure numbers; it knows no device. Source: block tables of PagedAttention (Kwon et al. 2023).
 */
import { numberToFp16 } from "../../src/core/fp16.ts";

export interface AttentionSequence {
  readonly queryStart: number;
  readonly queryLength: number;
  /** Tokens in the cache, those of this step included. */
  readonly contextLength: number;
  readonly blockTable: Int32Array;
}

export type AttentionKeys =
  | { readonly kind: "range"; readonly firstSlot: number }
  | { readonly kind: "gather"; readonly slots: Int32Array };

export interface AttentionSpan {
  readonly queryStart: number;
  readonly queryLength: number;
  /** Keys that are read: all of the sequence's, or those that the window of its first query reaches. */
  readonly numKeys: number;
  readonly keys: AttentionKeys;
  /**
   * [queryLength, numKeys] in half precision: 0, or less by the distance of the key, or minus infinity. Absent when every
   * query sees every key as it is.
   */
  readonly mask?: Uint16Array;
}

const MINUS_INFINITY_F16 = 0xfc00;

export interface AttentionOptions {
  /** How many keys a query sees, its own included; undefined for all. */
  readonly window?: number | undefined;
  /** Slot by slot, however the blocks lie: for results that must not depend on that. */
  readonly alwaysGathers?: boolean | undefined;
  /** Masks hold minus this times the distance of each key (ALiBi). */
  readonly distanceScale?: number | undefined;
  /** False: a query sees keys behind it too, and a window reaches to both sides. Absent: it does not. */
  readonly isCausal?: boolean | undefined;
  /** The window is a chunk: a query sees the keys from the start of its own on. */
  readonly isChunk?: boolean | undefined;
}

export function planAttention(
  sequence: AttentionSequence,
  blockSize: number,
  { window, alwaysGathers = false, distanceScale, isCausal = true, isChunk = false }: AttentionOptions = {},
): AttentionSpan {
  const { queryStart, queryLength, contextLength } = sequence;
  const past = contextLength - queryLength;
  const firstKey = window === undefined || !isCausal ? 0 : firstKeyOf(past, window, isChunk);
  const numKeys = contextLength - firstKey;
  const keys: AttentionKeys = alwaysGathers
    ? { kind: "gather", slots: slotsOf(sequence.blockTable, firstKey, contextLength, blockSize) }
    : planKeys(sequence, firstKey, blockSize);
  const span = { queryStart, queryLength, numKeys, keys };
  if (queryLength === 1 && distanceScale === undefined) return span;
  if (!isCausal) return window === undefined ? span : { ...span, mask: bandMask(queryLength, numKeys, window) };
  const mask = causalMask(queryLength, numKeys, (i) =>
    window === undefined ? 0 : firstKeyOf(past + i, window, isChunk) - firstKey,
  );
  if (distanceScale !== undefined) addDistances(mask, queryLength, numKeys, distanceScale);
  return { ...span, mask };
}

/** The slots of a sequence's tokens from `first` on, in order. */
export function slotsOf(blockTable: Int32Array, first: number, end: number, blockSize: number): Int32Array {
  const slots = new Int32Array(end - first);
  for (let i = first; i < end; i++) {
    slots[i - first] = (blockTable[Math.floor(i / blockSize)] ?? 0) * blockSize + (i % blockSize);
  }
  return slots;
}

function planKeys(
  { blockTable, contextLength }: AttentionSequence,
  firstKey: number,
  blockSize: number,
): AttentionKeys {
  const firstBlock = Math.floor(firstKey / blockSize);
  const first = blockTable[firstBlock] ?? 0;
  const endBlock = Math.ceil(contextLength / blockSize);
  for (let i = firstBlock + 1; i < endBlock; i++) {
    if (blockTable[i] !== first + i - firstBlock)
      return { kind: "gather", slots: slotsOf(blockTable, firstKey, contextLength, blockSize) };
  }
  return { kind: "range", firstSlot: first * blockSize + (firstKey % blockSize) };
}

/** Distances up to 2048 are exact in half precision. */
function addDistances(mask: Uint16Array, queryLength: number, numKeys: number, scale: number): void {
  const past = numKeys - queryLength;
  const byDistance = Uint16Array.from({ length: numKeys }, (_, distance) => numberToFp16(-scale * distance));
  for (let i = 0; i < queryLength; i++) {
    for (let key = 0; key <= past + i; key++) {
      const at = i * numKeys + key;
      if (mask[at] === 0) mask[at] = byDistance[past + i - key] ?? 0;
    }
  }
}

/** Query i stands at key numKeys - queryLength + i and sees those that are nearer than the window. */
function bandMask(queryLength: number, numKeys: number, window: number): Uint16Array {
  const mask = new Uint16Array(queryLength * numKeys).fill(MINUS_INFINITY_F16);
  const past = numKeys - queryLength;
  for (let i = 0; i < queryLength; i++) {
    const row = i * numKeys;
    mask.fill(0, row + Math.max(0, past + i + 1 - window), row + Math.min(numKeys, past + i + window));
  }
  return mask;
}

/** The first position that a query sees. */
function firstKeyOf(position: number, window: number, isChunk: boolean): number {
  return isChunk ? position - (position % window) : Math.max(0, position - window + 1);
}

/** Query i stands at key numKeys - queryLength + i and sees the keys from `firstOf(i)` up to itself. */
function causalMask(queryLength: number, numKeys: number, firstOf: (query: number) => number): Uint16Array {
  const mask = new Uint16Array(queryLength * numKeys);
  const past = numKeys - queryLength;
  for (let i = 0; i < queryLength; i++) {
    const row = i * numKeys;
    mask.fill(MINUS_INFINITY_F16, row + past + i + 1, row + numKeys);
    mask.fill(MINUS_INFINITY_F16, row, row + firstOf(i));
  }
  return mask;
}
