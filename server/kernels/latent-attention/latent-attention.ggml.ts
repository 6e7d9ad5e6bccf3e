/**
 * Both ends of multi-head latent attention. The cache holds one row for all heads: a latent that keys and values are made of,
 * and a rotated key. Queries go into the space of the latent, and what they attend to comes out of it by the matrices of
 * each head. Bound by the bytes of these matrices for few rows. Source: DeepSeek-V2 (DeepSeek-AI 2024), section 2.1 and
 * appendix C; ggml.h, ggml_mul_mat, ggml_rope_ext and ggml_concat.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor, WEIGHT_TYPES } from "../../src/device/cpu/cpu-tensor.ts";
import type { Address } from "../../src/native/ffi.ts";

export interface LatentRope {
  readonly positions: CpuTensor; // [numTokens]
  readonly isInterleaved: boolean;
  readonly theta: number;
  readonly frequencyFactors: CpuTensor | undefined; // [ropeDims / 2]
  readonly magnitude: number;
}

export interface LatentShape {
  readonly numHeads: number;
  readonly keyRank: number;
  readonly nopeDims: number;
  readonly ropeDims: number;
}

/** Columns of rows that lie apart. */
export interface Columns {
  readonly x: CpuTensor; // [numTokens, rowWidth]
  readonly first: number;
}

const F32_BYTES = 4;
const MODE_NEOX = 2;
const MODE_INTERLEAVED = 0;

/** [numTokens, numHeads, keyRank + ropeDims] of columns [numHeads, nopeDims + ropeDims] */
export function recordLatentQueries(
  graph: CpuGraph,
  shape: LatentShape,
  { x, first }: Columns,
  keyUp: CpuTensor, // [numHeads, keyRank, nopeDims]
  rope: LatentRope,
): CpuTensor {
  const { numHeads, keyRank, nopeDims, ropeDims } = shape;
  expectTensor("latentQueries keyUp", keyUp, WEIGHT_TYPES, [numHeads, keyRank, nopeDims]);
  const [numTokens, rowBytes] = rowsOf("latentQueries", { x, first }, numHeads * (nopeDims + ropeDims));
  const headBytes = (nopeDims + ropeDims) * F32_BYTES;
  const at = first * F32_BYTES;
  const { base } = graph.ggml;
  const nope = base.view3d(graph.claim(), x.handle, nopeDims, numTokens, numHeads, rowBytes, headBytes, at);
  const latent = base.mulMat(graph.claim(), keyUp.handle, nope);
  const latentBytes = keyRank * F32_BYTES;
  const byToken = [latentBytes * numTokens, latentBytes] as const;
  const rows = base.view3d(graph.claim(), latent, keyRank, numHeads, numTokens, ...byToken, 0);
  const rest = at + nopeDims * F32_BYTES;
  const toRotate = base.view3d(graph.claim(), x.handle, ropeDims, numHeads, numTokens, headBytes, rowBytes, rest);
  const handle = base.concat(graph.claim(), rows, recordRotated(graph, toRotate, ropeDims, rope), 0);
  return { handle, type: "f32", shape: [numTokens, numHeads, keyRank + ropeDims] };
}

/** [numTokens, keyRank + ropeDims] of columns [keyRank + ropeDims], of which the first are normalized. */
export function recordLatentKeys(
  graph: CpuGraph,
  { keyRank, ropeDims }: LatentShape,
  { x, first }: Columns,
  norm: { readonly weight: CpuTensor; readonly epsilon: number }, // [keyRank]
  rope: LatentRope,
): CpuTensor {
  expectTensor("latentKeys norm", norm.weight, ["f32"], [keyRank]);
  const [numTokens, rowBytes] = rowsOf("latentKeys", { x, first }, keyRank + ropeDims);
  const { base } = graph.ggml;
  const at = first * F32_BYTES;
  const latent = base.view2d(graph.claim(), x.handle, keyRank, numTokens, rowBytes, at);
  const normed = base.mul(graph.claim(), base.rmsNorm(graph.claim(), latent, norm.epsilon), norm.weight.handle);
  const ropeBytes = ropeDims * F32_BYTES;
  const rest = at + keyRank * F32_BYTES;
  const toRotate = base.view3d(graph.claim(), x.handle, ropeDims, 1, numTokens, ropeBytes, rowBytes, rest);
  const rows = base.reshape3d(graph.claim(), normed, keyRank, 1, numTokens);
  const handle = base.concat(graph.claim(), rows, recordRotated(graph, toRotate, ropeDims, rope), 0);
  return { handle, type: "f32", shape: [numTokens, keyRank + ropeDims] };
}

/** [numTokens, numHeads * valueDims] of latents [numTokens, numHeads * keyRank] */
export function recordLatentValues(
  graph: CpuGraph,
  attended: CpuTensor,
  valueUp: CpuTensor, // [numHeads, valueDims, keyRank]
): CpuTensor {
  const [numHeads = 0, valueDims = 0, keyRank = 0] = valueUp.shape;
  expectTensor("latentValues valueUp", valueUp, WEIGHT_TYPES, [-1, -1, -1]);
  expectTensor("latentValues attended", attended, ["f32"], [-1, numHeads * keyRank]);
  const numTokens = attended.shape[0] ?? 0;
  const { base } = graph.ggml;
  const latentBytes = keyRank * F32_BYTES;
  const byHead = [numHeads * latentBytes, latentBytes] as const;
  const latents = base.view3d(graph.claim(), attended.handle, keyRank, numTokens, numHeads, ...byHead, 0);
  const values = base.mulMat(graph.claim(), valueUp.handle, latents);
  const valueBytes = valueDims * F32_BYTES;
  const byToken = [valueBytes * numTokens, valueBytes] as const;
  const rows = base.view3d(graph.claim(), values, valueDims, numHeads, numTokens, ...byToken, 0);
  const width = numHeads * valueDims;
  const handle = base.reshape2d(graph.claim(), base.cont(graph.claim(), rows), width, numTokens);
  return { handle, type: "f32", shape: [numTokens, width] };
}

function rowsOf(op: string, { x, first }: Columns, width: number): readonly [numTokens: number, rowBytes: number] {
  expectTensor(`${op} x`, x, ["f32"], [-1, -1]);
  const [numTokens = 0, rowWidth = 0] = x.shape;
  if (first + width > rowWidth)
    throw new Error(`${op}: columns ${first} to ${first + width} exceed rows of ${rowWidth}`);
  return [numTokens, rowWidth * F32_BYTES];
}

function recordRotated(
  graph: CpuGraph,
  x: Address,
  numDims: number,
  { positions, isInterleaved, theta, frequencyFactors, magnitude }: LatentRope,
): Address {
  const mode = isInterleaved ? MODE_INTERLEAVED : MODE_NEOX;
  const factors = frequencyFactors?.handle ?? null;
  const rest = [0, theta, 1, 0, magnitude, 0, 0] as const;
  return graph.ggml.base.ropeExt(graph.claim(), x, positions.handle, factors, numDims, mode, ...rest);
}
