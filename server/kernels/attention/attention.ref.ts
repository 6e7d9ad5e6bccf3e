/**
 * Reference: causal attention over a paged cache, one query, head and key at a time, in double precision. Source:
 * scaled dot-product attention (Vaswani et al. 2017), PagedAttention (Kwon et al. 2023), logit soft-capping (Gemma Team
 * 2024), attention sinks (gpt-oss model card, OpenAI 2025).
 */
import { type AttentionSequence, slotsOf } from "./attention-span.ts";

export interface AttentionRef {
  readonly q: Float32Array; // [numTokens, numHeads, headDim]
  readonly keyCache: Float32Array; // [numSlots, numKvHeads, headDim]
  readonly valueCache: Float32Array; // [numSlots, numKvHeads, headDim]
  readonly sequences: readonly AttentionSequence[];
  readonly blockSize: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly scale: number;
  readonly softCap?: number;
  /** Keys that a query sees, its own included. */
  readonly window?: number;
  /** A logit of each head that takes part in the softmax and has no value. */
  readonly sinks?: Float32Array; // [numHeads]
}

/** [numTokens, numHeads, headDim] */
export function attentionRef(args: AttentionRef): Float32Array {
  const out = new Float32Array(args.q.length);
  for (const sequence of args.sequences) {
    const slots = slotsOf(sequence.blockTable, 0, sequence.contextLength, args.blockSize);
    for (let i = 0; i < sequence.queryLength; i++) {
      const end = sequence.contextLength - sequence.queryLength + i + 1;
      const visible = slots.subarray(Math.max(0, end - (args.window ?? end)), end);
      for (let head = 0; head < args.numHeads; head++) attend(args, sequence.queryStart + i, head, visible, out);
    }
  }
  return out;
}

function attend(args: AttentionRef, token: number, head: number, slots: Int32Array, out: Float32Array): void {
  const { q, keyCache, valueCache, numHeads, numKvHeads, headDim } = args;
  const at = (token * numHeads + head) * headDim;
  const kvHead = Math.floor(head / (numHeads / numKvHeads));
  const rowOf = (slot: number): number => (slot * numKvHeads + kvHead) * headDim;
  const scores = Array.from(slots, (slot) => capped(dot(q, at, keyCache, rowOf(slot), headDim) * args.scale, args));
  const sink = args.sinks?.[head] ?? Number.NEGATIVE_INFINITY;
  const largest = Math.max(sink, ...scores);
  const weights = scores.map((score) => Math.exp(score - largest));
  const total = weights.reduce((sum, weight) => sum + weight, Math.exp(sink - largest));
  for (let i = 0; i < headDim; i++) {
    let sum = 0;
    slots.forEach((slot, key) => {
      sum += ((weights[key] ?? 0) / total) * (valueCache[rowOf(slot) + i] ?? 0);
    });
    out[at + i] = sum;
  }
}

function capped(score: number, { softCap }: AttentionRef): number {
  return softCap === undefined ? score : softCap * Math.tanh(score / softCap);
}

function dot(a: Float32Array, aStart: number, b: Float32Array, bStart: number, length: number): number {
  let sum = 0;
  for (let i = 0; i < length; i++) sum += (a[aStart + i] ?? 0) * (b[bStart + i] ?? 0);
  return sum;
}
