/** WGMMA GEMMs on a GPU against the reference, and their share of memory bandwidth. Source: wgmma-gemm.cu. */
import { linearRef } from "../linear/linear.ref.ts";
import { type CudaCheck, type CudaCheckContext, relativeError } from "../testing/cuda-check.ts";
import { allocateFloats, type CheckInput, downloadFloats, uploadRandom } from "../testing/cuda-check-data.ts";
import { launchWgmmaGemm, type WgmmaWeightType, wgmmaTileConfig } from "./wgmma-gemm.cuda.ts";
import type { WgmmaTileConfig } from "./wgmma-plan.ts";

interface Variant {
  readonly weightType: WgmmaWeightType;
  readonly numRows: number;
  readonly outputs: number;
  readonly inputs: number;
  readonly hasBias?: boolean;
  readonly isGated?: boolean;
  /** Overrides the plan. */
  readonly form?: Partial<WgmmaTileConfig>;
}

const VARIANTS: readonly Variant[] = [
  { weightType: "e4m3", numRows: 64, outputs: 1536, inputs: 1024 },
  { weightType: "e4m3", numRows: 33, outputs: 520, inputs: 4096, hasBias: true },
  { weightType: "e4m3", numRows: 64, outputs: 520, inputs: 2048, form: { groups: 2, groupTiles: 2, splits: 4 } },
  { weightType: "e4m3", numRows: 9, outputs: 3584, inputs: 256, isGated: true },
  { weightType: "e4m3", numRows: 17, outputs: 528, inputs: 640, isGated: true, form: { tileOutputs: 56 } },
  { weightType: "e4m3", numRows: 96, outputs: 1536, inputs: 1024 },
  { weightType: "e4m3", numRows: 65, outputs: 520, inputs: 2048, form: { groups: 2, groupTiles: 1, splits: 2 } },
  { weightType: "e4m3", numRows: 128, outputs: 3584, inputs: 256, isGated: true },
  { weightType: "bf16", numRows: 64, outputs: 1536, inputs: 512 },
  { weightType: "bf16", numRows: 24, outputs: 392, inputs: 576, hasBias: true },
  { weightType: "bf16", numRows: 10, outputs: 1280, inputs: 2048, form: { groups: 3, groupTiles: 1, splits: 2 } },
  { weightType: "bf16", numRows: 40, outputs: 3584, inputs: 128, isGated: true },
  { weightType: "bf16", numRows: 48, outputs: 96, inputs: 4096 },
  { weightType: "bf16", numRows: 90, outputs: 392, inputs: 576, hasBias: true },
  { weightType: "bf16", numRows: 128, outputs: 1280, inputs: 2048 },
];

export const cudaChecks: readonly CudaCheck[] = VARIANTS.map((variant) => {
  const { weightType, numRows, outputs, inputs, isGated } = variant;
  return {
    name: `wgmma-gemm ${weightType} ${numRows} rows ${outputs} x ${inputs}${isGated === true ? " gated" : ""}`,
    maxError: 4e-3,
    needsWgmma: true,
    run: (context) => runLinear(context, variant),
  };
});

async function runLinear(context: CudaCheckContext, variant: Variant): Promise<number> {
  const { weightType, numRows, outputs, inputs, hasBias = false, isGated = false } = variant;
  const matrixRows = isGated ? 2 * outputs : outputs;
  const isCoded = weightType === "e4m3";
  const spread = isCoded ? 400 : 1;
  const x = uploadRandom(context, weightType, numRows * inputs, 1, spread);
  const weight = uploadRandom(context, weightType, matrixRows * inputs, 2, spread);
  // So that sums are of the size of one.
  const rows = uploadRandom(context, "f32", numRows, 3, 1 / spread);
  const columns = uploadRandom(context, "f32", matrixRows, 4, 1 / spread);
  const bias = uploadRandom(context, "bf16", outputs, 5);
  const form = formOf(context, variant, matrixRows);
  const isWhole = form.splits === 1;
  const size = form.splits * numRows * outputs;
  const out = allocateFloats(context, isWhole ? "bf16" : "f32", size);
  const addresses = { x: x.pointer, weight: weight.pointer, out, bias: hasBias ? bias.pointer : undefined };
  const scales = isCoded ? { rows: rows.pointer, columns: columns.pointer } : undefined;
  const gatedBy = isGated ? "silu" : undefined;
  launchWgmmaGemm(context.stream, { weightType, ...addresses, scales, gatedBy, numRows, outputs, inputs }, form);
  const result = addedUp(await downloadFloats(context, isWhole ? "bf16" : "f32", out, size), numRows * outputs);
  // Sums in parts are left without scales.
  const isScaled = isCoded && isWhole;
  const sums = linearRef({
    x: isScaled ? scaled(x, rows, inputs) : x.values,
    weight: isScaled ? scaled(weight, columns, inputs) : weight.values,
    inputs,
    ...(hasBias ? { bias: bias.values } : {}),
  });
  return relativeError(result, isGated ? gated(sums, outputs) : sums);
}

function formOf({ stream }: CudaCheckContext, variant: Variant, matrixRows: number): WgmmaTileConfig {
  const planned = wgmmaTileConfig({ arch: "sm_90a", numSms: stream.numSms }, { ...variant, matrixRows });
  if (planned === undefined) throw new Error("the kernel is not written for this shape");
  return { ...planned, ...variant.form };
}

function addedUp(parts: Float32Array, size: number): Float32Array {
  const sums = new Float32Array(size);
  for (let i = 0; i < parts.length; i++) sums[i % size] = (sums[i % size] ?? 0) + (parts[i] ?? 0);
  return sums;
}

function scaled({ values }: CheckInput, scales: CheckInput, width: number): Float32Array {
  return values.map((value, i) => value * (scales.values[Math.floor(i / width)] ?? Number.NaN));
}

function gated(sums: Float32Array, width: number): Float32Array {
  return Float32Array.from({ length: sums.length / 2 }, (_, i) => {
    const at = Math.floor(i / width) * 2 * width + (i % width);
    const gate = sums[at] ?? Number.NaN;
    return (gate / (1 + Math.exp(-gate))) * (sums[at + width] ?? Number.NaN);
  });
}
