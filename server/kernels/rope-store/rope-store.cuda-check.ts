/**
 * Head norms, RoPE and the writes to the KV cache on a GPU, against the three references in sequence. Source:
 * rope-store.cu.
 */
import type { ElemType } from "../cuda/launch-args.ts";
import { rmsNormHeadsRef } from "../rms-norm-heads/rms-norm-heads.ref.ts";
import { ropeRef } from "../rope/rope.ref.ts";
import { type CudaCheck, type CudaCheckContext, relativeError } from "../testing/cuda-check.ts";
import { allocateFloats, downloadFloats, seededInts, seededOrder, uploadRandom } from "../testing/cuda-check-data.ts";
import type { CudaElement } from "../testing/cuda-elements.ts";
import { uploadPartials } from "../testing/split-k-partials.ts";
import { launchRopeStore } from "./rope-store.cuda.ts";

interface Variant {
  readonly type: ElemType;
  readonly headDim: number;
  readonly numDims: number;
  readonly hasNorms: boolean;
  readonly isFp8: boolean;
  readonly isHalf?: boolean;
  readonly isInPlace: boolean;
  /** The rows are sums of codes. */
  readonly hasSums?: boolean;
  /** They are in so many parts. */
  readonly numParts?: number;
  readonly sections?: readonly [number, number, number];
  readonly maxError: number;
}

const HEADS = { numHeads: 8, numKvHeads: 2 } as const;
const NUM_ALL = HEADS.numHeads + 2 * HEADS.numKvHeads;
const NUM_TURNED = HEADS.numHeads + HEADS.numKvHeads;
const NUM_TOKENS = 41;
const NUM_SLOTS = 64;
const THETA = 10000;
const EPSILON = 1e-6;
const SCALES = { key: 0.02, value: 0.01 } as const;

const VARIANTS: readonly Variant[] = [
  { type: "f32", headDim: 128, numDims: 128, hasNorms: false, isFp8: false, isInPlace: false, maxError: 5e-5 },
  { type: "f32", headDim: 80, numDims: 32, hasNorms: true, isFp8: false, isInPlace: true, maxError: 5e-5 },
  { type: "f32", headDim: 64, numDims: 0, hasNorms: false, isFp8: false, isInPlace: true, maxError: 5e-5 },
  { type: "bf16", headDim: 128, numDims: 128, hasNorms: true, isFp8: false, isInPlace: false, maxError: 4e-3 },
  { type: "bf16", headDim: 256, numDims: 256, hasNorms: false, isFp8: false, isInPlace: true, maxError: 4e-3 },
  {
    type: "bf16",
    headDim: 64,
    numDims: 64,
    hasNorms: false,
    isFp8: false,
    isHalf: true,
    isInPlace: false,
    maxError: 4e-3,
  },
  { type: "bf16", headDim: 24, numDims: 24, hasNorms: true, isFp8: false, isInPlace: false, maxError: 4e-3 },
  { type: "bf16", headDim: 100, numDims: 60, hasNorms: true, isFp8: true, isInPlace: false, maxError: 4e-2 },
  { type: "bf16", headDim: 96, numDims: 96, hasNorms: false, isFp8: true, isInPlace: false, maxError: 4e-2 },
  {
    type: "bf16",
    headDim: 128,
    numDims: 96,
    hasNorms: false,
    isFp8: false,
    isInPlace: false,
    hasSums: true,
    maxError: 4e-3,
  },
  {
    type: "bf16",
    headDim: 128,
    numDims: 128,
    hasNorms: false,
    isFp8: false,
    isInPlace: false,
    hasSums: true,
    numParts: 4,
    maxError: 4e-3,
  },
  {
    type: "bf16",
    headDim: 64,
    numDims: 64,
    hasNorms: true,
    isFp8: false,
    isInPlace: false,
    numParts: 2,
    maxError: 4e-3,
  },
  {
    type: "f32",
    headDim: 16,
    numDims: 16,
    hasNorms: false,
    isFp8: false,
    isInPlace: false,
    sections: [2, 3, 3],
    maxError: 5e-5,
  },
  {
    type: "bf16",
    headDim: 128,
    numDims: 128,
    hasNorms: false,
    isFp8: false,
    isInPlace: false,
    sections: [16, 24, 24],
    maxError: 4e-3,
  },
];

export const cudaChecks: readonly CudaCheck[] = VARIANTS.map((variant) => ({
  name: `rope-store ${variant.type} ${variant.headDim}/${variant.numDims}${variant.hasNorms ? " norms" : ""}${variant.isFp8 ? " fp8" : ""}${variant.isHalf ? " halves" : ""}${variant.isInPlace ? " in place" : ""}${variant.hasSums ? " sums" : ""}${variant.numParts === undefined ? "" : ` in ${variant.numParts} parts`}${variant.sections ? " three axes" : ""}`,
  maxError: variant.maxError,
  run: (context) => runVariant(context, variant),
}));

async function runVariant(context: CudaCheckContext, variant: Variant): Promise<number> {
  const { type, headDim, numDims, isFp8, isHalf = false, isInPlace, hasSums, numParts, sections } = variant;
  const qkvWidth = NUM_ALL * headDim;
  const kvWidth = HEADS.numKvHeads * headDim;
  const qRowWidth = isInPlace ? qkvWidth : HEADS.numHeads * headDim;
  const qkv = uploadRandom(context, type, NUM_TOKENS * qkvWidth, 1, 3);
  const norms = uploadRandom(context, "f32", NUM_TURNED * headDim, 2);
  const rowScales = uploadRandom(context, "f32", NUM_TOKENS, 5);
  const columnScales = uploadRandom(context, "f32", qkvWidth, 6);
  const scaleOf = (i: number): number =>
    hasSums === true
      ? (rowScales.values[Math.floor(i / qkvWidth)] ?? Number.NaN) * (columnScales.values[i % qkvWidth] ?? Number.NaN)
      : 1;
  const left = numParts === undefined ? undefined : uploadPartials(context, numParts, NUM_TOKENS * qkvWidth, 7, 3);
  const rows = (left ?? qkv).values.map((value, i) => value * scaleOf(i));
  const positions = seededInts((sections === undefined ? 1 : 3) * NUM_TOKENS, 3, 3000);
  const slots = seededOrder(NUM_SLOTS, 4).subarray(0, NUM_TOKENS).slice();
  slots[5] = -1;
  const invFreq = Float32Array.from({ length: Math.max(1, numDims / 2) }, (_, i) => THETA ** ((-2 * i) / numDims));
  const wide: CudaElement = isHalf ? "f16" : type;
  const kvType: CudaElement = isFp8 ? "e4m3" : wide;
  const keys = context.zeros(NUM_SLOTS * kvWidth * 4);
  const values = context.zeros(NUM_SLOTS * kvWidth * 4);
  const q = isInPlace ? qkv.pointer : allocateFloats(context, type, NUM_TOKENS * qRowWidth);
  launchRopeStore(context.stream, {
    type,
    qkv: qkv.pointer,
    sumScales: hasSums === true ? { rows: rowScales.pointer, columns: columnScales.pointer } : undefined,
    splitKPartials: left?.parts,
    positions: context.upload(positions),
    slots: context.upload(slots),
    numTokens: NUM_TOKENS,
    ...HEADS,
    headDim,
    rope: numDims === 0 ? undefined : { invFreq: context.upload(invFreq), numDims, magnitude: 1.25, sections },
    headNorms: variant.hasNorms ? { weight: norms.pointer, epsilon: EPSILON } : undefined,
    q,
    qRowWidth,
    keys,
    values,
    fp8: isFp8 ? SCALES : undefined,
    isHalf,
  });
  const gotQ = await downloadFloats(context, type, q, NUM_TOKENS * qRowWidth);
  const gotK = await downloadFloats(context, kvType, keys, NUM_SLOTS * kvWidth);
  const gotV = await downloadFloats(context, kvType, values, NUM_SLOTS * kvWidth);
  const rotated = rotatedRef(variant, rows, norms.values, positions);
  const rotatedWidth = NUM_TURNED * headDim;
  const qWidth = HEADS.numHeads * headDim;
  const wantedQ = columns(rotated, rotatedWidth, 0, qWidth);
  const wantedK = stored(columns(rotated, rotatedWidth, qWidth, kvWidth), slots, kvWidth, isFp8 ? SCALES.key : 1);
  const rowsV = columns(rows, qkvWidth, rotatedWidth, kvWidth);
  const wantedV = stored(rowsV, slots, kvWidth, isFp8 ? SCALES.value : 1);
  return Math.max(
    relativeError(columns(gotQ, qRowWidth, 0, qWidth), wantedQ),
    relativeError(gotK, wantedK),
    relativeError(gotV, wantedV),
  );
}

/** [numTokens, NUM_TURNED * headDim] */
function rotatedRef(
  { headDim, numDims, hasNorms, sections }: Variant,
  qkv: Float32Array,
  weight: Float32Array,
  positions: Int32Array,
): Float32Array {
  const rowWidth = NUM_ALL * headDim;
  const shape = { numHeads: NUM_TURNED, headDim };
  const width = NUM_TURNED * headDim;
  const x = hasNorms
    ? rmsNormHeadsRef({ x: qkv, weight, rowWidth, ...shape, epsilon: EPSILON })
    : columns(qkv, rowWidth, 0, width);
  if (numDims === 0) return x;
  return ropeRef({ x, positions, rowWidth: width, ...shape, numDims, sections, theta: THETA, magnitude: 1.25 });
}

function columns(x: Float32Array, rowWidth: number, start: number, width: number): Float32Array {
  const numRows = x.length / rowWidth;
  const out = new Float32Array(numRows * width);
  for (let row = 0; row < numRows; row++) {
    out.set(x.subarray(row * rowWidth + start, row * rowWidth + start + width), row * width);
  }
  return out;
}

function stored(rows: Float32Array, slots: Int32Array, width: number, scale: number): Float32Array {
  const out = new Float32Array(NUM_SLOTS * width);
  slots.forEach((slot, token) => {
    if (slot < 0) return;
    out.set(
      rows.subarray(token * width, (token + 1) * width).map((value) => value / scale),
      slot * width,
    );
  });
  return out;
}
