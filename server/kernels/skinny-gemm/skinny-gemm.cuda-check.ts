/** Skinny GEMMs on a GPU against the reference, and their share of memory bandwidth. Source: skinny-gemm.cu. */
import type { ElemType } from "../cuda/launch-args.ts";
import { linearRef } from "../linear/linear.ref.ts";
import { type CudaCheck, type CudaCheckContext, relativeError } from "../testing/cuda-check.ts";
import { allocateFloats, downloadFloats, uploadRandom } from "../testing/cuda-check-data.ts";
import { launchSkinnyGemm, type SkinnyWeightType } from "./skinny-gemm.cuda.ts";

interface Variant {
  readonly weightType: SkinnyWeightType;
  readonly outputType: ElemType;
  readonly numRows: number;
  readonly outputs: number;
  readonly inputs: number;
  readonly hasBias: boolean;
}

const VARIANTS: readonly Variant[] = [
  { weightType: "bf16", outputType: "bf16", numRows: 1, outputs: 128, inputs: 4096, hasBias: false },
  { weightType: "bf16", outputType: "f32", numRows: 3, outputs: 16, inputs: 64, hasBias: true },
  { weightType: "bf16", outputType: "bf16", numRows: 7, outputs: 8448, inputs: 1088, hasBias: true },
  { weightType: "bf16", outputType: "bf16", numRows: 13, outputs: 8448, inputs: 512, hasBias: false },
  { weightType: "bf16", outputType: "bf16", numRows: 23, outputs: 48, inputs: 640, hasBias: true },
  { weightType: "e4m3", outputType: "bf16", numRows: 1, outputs: 128, inputs: 4096, hasBias: false },
  { weightType: "e4m3", outputType: "f32", numRows: 8, outputs: 8448, inputs: 384, hasBias: true },
  { weightType: "e4m3", outputType: "bf16", numRows: 16, outputs: 64, inputs: 1152, hasBias: true },
];

export const cudaChecks: readonly CudaCheck[] = VARIANTS.map((variant) => {
  const { weightType, outputType, numRows, outputs, inputs } = variant;
  return {
    name: `skinny-gemm ${weightType} ${numRows} rows ${outputs} x ${inputs} ${outputType}`,
    maxError: outputType === "f32" ? 1e-5 : 4e-3,
    run: (context) => runLinear(context, variant),
  };
});

async function runLinear(context: CudaCheckContext, variant: Variant): Promise<number> {
  const { weightType, outputType, numRows, outputs, inputs, hasBias } = variant;
  const x = uploadRandom(context, "bf16", numRows * inputs, 1);
  const weight = uploadRandom(context, weightType, outputs * inputs, 2, weightType === "e4m3" ? 400 : 1);
  const scales = uploadRandom(context, "f32", outputs, 3);
  const bias = uploadRandom(context, outputType, outputs, 4);
  const out = allocateFloats(context, outputType, numRows * outputs);
  launchSkinnyGemm(context.stream, {
    x: x.pointer,
    weight: weight.pointer,
    weightType,
    scales: weightType === "e4m3" ? scales.pointer : undefined,
    bias: hasBias ? bias.pointer : undefined,
    out,
    outputType,
    numRows,
    outputs,
    inputs,
  });
  const result = await downloadFloats(context, outputType, out, numRows * outputs);
  const values =
    weightType === "e4m3"
      ? weight.values.map((code, i) => code * (scales.values[Math.floor(i / inputs)] ?? Number.NaN))
      : weight.values;
  const expected = linearRef({ x: x.values, weight: values, inputs, ...(hasBias ? { bias: bias.values } : {}) });
  return relativeError(result, expected);
}

/** The GEMMs of a layer of an 8B model and its logits; weights rotate, so that none stays in the L2 cache. */
