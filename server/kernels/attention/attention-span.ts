/**
 * Decides how attention reads one sequence's blocks: as one range of the cache when they lie side by side, else slot by
 * slot. Pure numbers; it knows no device.
 */
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
  readonly contextLength: number;
  readonly keys: AttentionKeys;
  /** [queryLength, contextLength] in half precision, 0 or minus infinity. Absent when every query sees every key. */
  readonly mask?: Uint16Array;
}

const MINUS_INFINITY_F16 = 0xfc00;

export function planAttention(sequence: AttentionSequence, blockSize: number): AttentionSpan {
  const { queryStart, queryLength, contextLength } = sequence;
  const span = { queryStart, queryLength, contextLength, keys: planKeys(sequence, blockSize) };
  return queryLength === 1 ? span : { ...span, mask: causalMask(queryLength, contextLength) };
}

/** The slots of a sequence's tokens, in order. */
export function slotsOf(blockTable: Int32Array, contextLength: number, blockSize: number): Int32Array {
  const slots = new Int32Array(contextLength);
  for (let i = 0; i < contextLength; i++) {
    slots[i] = (blockTable[Math.floor(i / blockSize)] ?? 0) * blockSize + (i % blockSize);
  }
  return slots;
}

function planKeys({ blockTable, contextLength }: AttentionSequence, blockSize: number): AttentionKeys {
  const first = blockTable[0] ?? 0;
  const numBlocks = Math.ceil(contextLength / blockSize);
  for (let i = 1; i < numBlocks; i++) {
    if (blockTable[i] !== first + i) return { kind: "gather", slots: slotsOf(blockTable, contextLength, blockSize) };
  }
  return { kind: "range", firstSlot: first * blockSize };
}

/** Query i stands at contextLength - queryLength + i and sees the keys up to itself. */
function causalMask(queryLength: number, contextLength: number): Uint16Array {
  const mask = new Uint16Array(queryLength * contextLength);
  const past = contextLength - queryLength;
  for (let i = 0; i < queryLength; i++) {
    mask.fill(MINUS_INFINITY_F16, i * contextLength + past + i + 1, (i + 1) * contextLength);
  }
  return mask;
}
