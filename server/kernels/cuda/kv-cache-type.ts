/**
 * Element type of the paged KV cache: the type of activations, FP16, or FP8 with one scale for a layer's keys and one
 * for its values. Source: FP8 E4M3 (Micikevicius et al. 2022), PagedAttention (Kwon et al. 2023).
 */
import type { Defines } from "./launch-args.ts";

export interface Fp8KvScales {
  /** A key is its code times this. */
  readonly key: number;
  readonly value: number;
}

/** Neither: elements. */
export interface KvCacheForm {
  readonly fp8?: Fp8KvScales | undefined;
  readonly isHalf?: boolean | undefined;
}

const FP8_DEFINES: Defines = { KV_E4M3: 1 };
const HALF_DEFINES: Defines = { KV_F16: 1 };
const SAME_DEFINES: Defines = {};

export function kvDefines({ fp8, isHalf }: KvCacheForm): Defines {
  if (fp8 !== undefined) return FP8_DEFINES;
  return isHalf === true ? HALF_DEFINES : SAME_DEFINES;
}

/** Head sizes that the kernels are written for. */
export function isHeadDim(headDim: number): boolean {
  return headDim >= HEAD_STEP && headDim <= MAX_HEAD_DIM && headDim % HEAD_STEP === 0;
}

const HEAD_STEP = 4;
const MAX_HEAD_DIM = 256;

export function expectHeadDim(op: string, headDim: number): void {
  if (isHeadDim(headDim)) return;
  throw new Error(
    `${op}: expected heads of a multiple of ${HEAD_STEP} elements, at most ${MAX_HEAD_DIM}, got ${headDim}`,
  );
}

export function expectGroups(op: string, numHeads: number, numKvHeads: number): void {
  if (numKvHeads >= 1 && numHeads >= numKvHeads && numHeads % numKvHeads === 0) return;
  throw new Error(`${op}: expected query heads in equal groups, got ${numHeads} over ${numKvHeads} KV heads`);
}
