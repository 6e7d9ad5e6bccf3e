/**
 * The fused add and norm on a GPU: each variant against the reference, and the bandwidth of the common one. Source:
 * add-norm.cu.
 */

import type { ElemType } from "../cuda/launch-args.ts";
import type { OutputCodes } from "../cuda/quantized-output.ts";
import type { CudaCheck, CudaCheckContext } from "../testing/cuda-check.ts";
import { relativeError } from "../testing/cuda-check.ts";
import { allocateFloats, downloadFloats, uploadRandom } from "../testing/cuda-check-data.ts";
import { uploadPartials } from "../testing/split-k-partials.ts";
import { launchAddNorm } from "./add-norm.cuda.ts";
import { addNormRef } from "./add-norm.ref.ts";

interface Variant {
  readonly type: ElemType;
  readonly width: number;
  readonly kind: "rms" | "layer";
  readonly hasBranch: boolean;
  readonly hasPostNorm: boolean;
  readonly codes?: OutputCodes;
  /** The branch is sums of codes in so many parts. */
  readonly numParts?: number;
  readonly maxError: number;
}

const NUM_ROWS = 37;
const EPSILON = 1e-5;

const VARIANTS: readonly Variant[] = [
  { type: "f32", width: 64, kind: "rms", hasBranch: false, hasPostNorm: false, maxError: 1e-6 },
  { type: "f32", width: 5120, kind: "layer", hasBranch: true, hasPostNorm: false, maxError: 1e-6 },
  { type: "bf16", width: 4096, kind: "rms", hasBranch: true, hasPostNorm: false, maxError: 4e-3 },
  { type: "bf16", width: 16384, kind: "rms", hasBranch: true, hasPostNorm: true, maxError: 4e-3 },
  { type: "bf16", width: 1000, kind: "layer", hasBranch: true, hasPostNorm: false, maxError: 4e-3 },
  { type: "bf16", width: 4096, kind: "rms", hasBranch: true, hasPostNorm: false, codes: "e4m3", maxError: 4e-2 },
  { type: "bf16", width: 4096, kind: "rms", hasBranch: true, hasPostNorm: false, codes: "i8", maxError: 1e-2 },
  { type: "bf16", width: 2048, kind: "rms", hasBranch: true, hasPostNorm: true, numParts: 4, maxError: 4e-3 },
  { type: "f32", width: 256, kind: "layer", hasBranch: true, hasPostNorm: false, numParts: 2, maxError: 1e-6 },
];

export const cudaChecks: readonly CudaCheck[] = VARIANTS.map((variant) => ({
  name: `add-norm ${variant.type} ${variant.width} ${variant.kind}${variant.hasBranch ? " branch" : ""}${variant.hasPostNorm ? " post" : ""} ${variant.codes ?? ""}${variant.numParts === undefined ? "" : `${variant.numParts} parts`}`,
  maxError: variant.maxError,
  run: (context) => runVariant(context, variant),
}));

async function runVariant(context: CudaCheckContext, variant: Variant): Promise<number> {
  const { type, width, kind } = variant;
  const count = NUM_ROWS * width;
  const residual = uploadRandom(context, type, count, 1, 3);
  const branch = uploadRandom(context, type, count, 2, 2);
  const { numParts } = variant;
  const left = numParts === undefined ? undefined : uploadPartials(context, numParts, count, 6, 2);
  const rowScales = uploadRandom(context, "f32", NUM_ROWS, 7);
  const columnScales = uploadRandom(context, "f32", width, 8);
  const added = left?.values.map(
    (sum, i) => sum * (rowScales.values[Math.floor(i / width)] ?? 0) * (columnScales.values[i % width] ?? 0),
  );
  const weight = uploadRandom(context, "f32", width, 3);
  const bias = uploadRandom(context, "f32", width, 4);
  const postWeight = uploadRandom(context, "f32", width, 5);
  const scales = context.allocate(NUM_ROWS * 4);
  const out = allocateFloats(context, type, count);
  const isLayer = kind === "layer";
  const { codes } = variant;
  launchAddNorm(context.stream, {
    type,
    residual: residual.pointer,
    branch: variant.hasBranch ? branch.pointer : undefined,
    branchScales: left && { rows: rowScales.pointer, columns: columnScales.pointer },
    branchPartials: left?.parts,
    branchScale: 0.5,
    postWeight: variant.hasPostNorm ? postWeight.pointer : undefined,
    kind,
    weight: weight.pointer,
    bias: isLayer ? bias.pointer : undefined,
    epsilon: EPSILON,
    out,
    quantized: codes && { codes, scales, per: "row" },
    numRows: NUM_ROWS,
    width,
  });
  const expected = addNormRef({
    residual: residual.values,
    ...(variant.hasBranch ? { branch: added ?? branch.values } : {}),
    branchScale: 0.5,
    ...(variant.hasPostNorm ? { postWeight: postWeight.values } : {}),
    kind,
    weight: weight.values,
    ...(isLayer ? { bias: bias.values } : {}),
    epsilon: EPSILON,
  });
  const sum = await downloadFloats(context, type, residual.pointer, count);
  const result = codes
    ? await decoded(context, codes, out, scales, width)
    : await downloadFloats(context, type, out, count);
  return Math.max(relativeError(sum, expected.residual), relativeError(result, expected.out));
}

async function decoded(
  context: CudaCheckContext,
  codes: OutputCodes,
  out: bigint,
  scales: bigint,
  width: number,
): Promise<Float32Array> {
  const scaleOf = await downloadFloats(context, "f32", scales, NUM_ROWS);
  const bytes = new Int8Array(NUM_ROWS * width);
  if (codes === "i8") await context.download(out, bytes);
  const numbers = codes === "i8" ? Float32Array.from(bytes) : await downloadFloats(context, "e4m3", out, bytes.length);
  return numbers.map((value, i) => value * (scaleOf[Math.floor(i / width)] ?? Number.NaN));
}
