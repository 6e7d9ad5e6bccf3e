/** Products for few rows on a GPU against the reference, and how near they come to the speed of reading. */
import type { CudaActivation } from "../gated-mul/gated-mul.cuda.ts";
import { linearRef } from "../linear/linear.ref.ts";
import { siluMulRef } from "../silu-mul/silu-mul.ref.ts";
import { type CudaBench, type CudaCheck, type CudaCheckContext, relativeError } from "../testing/cuda-check.ts";
import { downloadFloats, uploadPattern, uploadRandom } from "../testing/cuda-check-data.ts";
import { launchSkinnyLinear, type SkinnyLinearCudaArgs } from "./skinny-linear.cuda.ts";

interface Variant {
  readonly numRows: number;
  readonly inputs: number;
  readonly outputs: number;
  readonly weightType: SkinnyLinearCudaArgs["weightType"];
  readonly scalesPer?: "tensor" | "row";
  readonly outType: SkinnyLinearCudaArgs["outType"];
  readonly hasBias: boolean;
  readonly gated?: CudaActivation;
}

const VARIANTS: readonly Variant[] = [
  { numRows: 1, inputs: 4096, outputs: 48, weightType: "bf16", outType: "bf16", hasBias: false },
  { numRows: 7, inputs: 192, outputs: 16400, weightType: "bf16", outType: "f32", hasBias: true },
  { numRows: 13, inputs: 1024, outputs: 96, weightType: "bf16", outType: "bf16", hasBias: true, gated: "silu" },
  { numRows: 3, inputs: 1152, outputs: 80, weightType: "e4m3", scalesPer: "tensor", outType: "bf16", hasBias: false },
  {
    numRows: 16,
    inputs: 2048,
    outputs: 64,
    weightType: "e4m3",
    scalesPer: "row",
    outType: "bf16",
    hasBias: true,
    gated: "silu",
  },
];

export const cudaChecks: readonly CudaCheck[] = VARIANTS.map((variant, i) => {
  const { numRows, inputs, outputs, weightType, outType, gated } = variant;
  return {
    name: `skinny-linear ${weightType} ${numRows} rows ${outputs} x ${inputs} to ${outType}${gated ? " gated" : ""}`,
    maxError: outType === "f32" ? 1e-4 : 6e-3,
    run: (context) => runVariant(context, variant),
    ...(i === 0 || i === 3 ? { benches: (context: CudaCheckContext) => benches(context, weightType) } : {}),
  };
});

async function runVariant(context: CudaCheckContext, variant: Variant): Promise<number> {
  const { numRows, inputs, outputs, weightType, scalesPer, outType, hasBias, gated } = variant;
  const x = uploadRandom(context, "bf16", numRows * inputs, 1);
  const weight = uploadRandom(context, weightType, outputs * inputs, 2, 0.2);
  const scales = uploadRandom(context, "f32", outputs, 3);
  const bias = uploadRandom(context, "bf16", outputs, 4);
  const count = (numRows * outputs) / (gated === undefined ? 1 : 2);
  const out = context.allocate(count * 4);
  launchSkinnyLinear(context.stream, {
    x: x.pointer,
    weight: weight.pointer,
    weightType,
    scales: scalesPer && { pointer: scales.pointer, per: scalesPer },
    bias: hasBias ? bias.pointer : undefined,
    out,
    outType,
    gated,
    numRows,
    inputs,
    outputs,
  });
  const result = await downloadFloats(context, outType, out, count);
  const scaleOf = (output: number): number => scales.values[scalesPer === "row" ? output : 0] ?? 0;
  const matrix = scalesPer ? weight.values.map((value, i) => value * scaleOf(Math.floor(i / inputs))) : weight.values;
  const withBias = hasBias ? { bias: bias.values } : {};
  const sums = linearRef({ x: x.values, weight: matrix, inputs, ...withBias });
  return relativeError(result, gated === undefined ? sums : siluMulRef(sums, outputs / 2));
}

/** The products of a layer of an 8B model and its logits; weights rotate, so that none stays in the L2 cache. */
function benches(context: CudaCheckContext, weightType: SkinnyLinearCudaArgs["weightType"]): readonly CudaBench[] {
  const { stream } = context;
  const elementBytes = weightType === "bf16" ? 2 : 1;
  const shapes: readonly (readonly [outputs: number, inputs: number, gated?: CudaActivation])[] = [
    [6144, 4096],
    [4096, 4096],
    [28672, 4096],
    [28672, 4096, "silu"],
    [4096, 14336],
    [128256, 4096],
  ];
  const scales =
    weightType === "e4m3" ? ({ pointer: uploadPattern(context, "f32", 1), per: "tensor" } as const) : undefined;
  // One piece of memory that all shapes cut their matrices out of.
  const pool = uploadPattern(context, weightType, 128256 * 4096);
  return shapes.flatMap(([outputs, inputs, gated]) => {
    const size = outputs * inputs;
    const copies = Math.floor((128256 * 4096) / size);
    return [1, 8, 16].map((numRows) => {
      const x = uploadPattern(context, "bf16", numRows * inputs);
      const out = context.allocate(numRows * outputs * 4);
      return {
        name: `${numRows} rows ${outputs} x ${inputs}${gated ? " gated" : ""}`,
        bytes: size * elementBytes,
        flops: 2 * numRows * size,
        launch: (round: number): void => {
          const weight = pool + BigInt((round % copies) * size * elementBytes);
          launchSkinnyLinear(stream, {
            x,
            weight,
            weightType,
            scales,
            out,
            outType: "bf16",
            gated,
            numRows,
            inputs,
            outputs,
          });
        },
      };
    });
  });
}
