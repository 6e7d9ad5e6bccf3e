/** The fused layer kernel at each number of rows that it takes. Source: fused-layer.cu. */
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import {
  type FusedLayerMatrix,
  type FusedLayerWeightType,
  gridBarrierBytes,
  launchFusedLayer,
} from "./fused-layer.cuda.ts";

const EPSILON = 1e-5;

/** At the shapes of Llama-3.1-8B, unless named otherwise. */
export const cudaBenches: readonly CudaBenchSet[] = (["bf16", "e4m3", "int4"] as const).map((weightType) => ({
  name: `fused-layer ${weightType}`,
  benches: (context) => benches(context, weightType),
}));

function benches(context: CudaCheckContext, weightType: FusedLayerWeightType): readonly CudaBench[] {
  const [width, inner, outWidth] = [4096, 14336, 6144];
  const bits = weightType === "bf16" ? 16 : weightType === "e4m3" ? 8 : 4;
  const matrix = (outputs: number, inputs: number): FusedLayerMatrix => ({
    weight: uploadPattern(context, "bf16", (outputs * inputs * bits) / 16),
    scales: uploadPattern(context, "f32", weightType === "int4" ? (outputs * inputs) / 256 : outputs),
  });
  const [oProj, gateUp] = [matrix(width, width), matrix(2 * inner, width)];
  const [down, qkvProj] = [matrix(width, inner), matrix(outWidth, width)];
  const norm = uploadPattern(context, "f32", width);
  const numWeights = width * width + 3 * inner * width + outWidth * width;
  return { bf16: [1, 2, 4, 8], e4m3: [1, 2, 4], int4: [1, 2] }[weightType].map((numRows) => {
    const [attention, residual] = [width, width].map((each) => uploadPattern(context, "bf16", numRows * each));
    const args = {
      ...{ weightType, numRows, attentionWidth: width, width, inner, outWidth, epsilon: EPSILON, norm },
      ...{ oProj, gateUp, down, gridBarrier: context.zeros(gridBarrierBytes({ width, inner })) },
      activation: "silu" as const,
      activated: context.allocate(numRows * inner * 2),
      qkvProj: { matrix: qkvProj, norm, out: context.allocate(numRows * outWidth * 2) },
    } as const;
    return {
      name: `${numRows} rows of a layer of 8B`,
      bytes: (numWeights * bits) / 8 + (weightType === "int4" ? numWeights / 64 : 0),
      flops: 2 * numRows * numWeights,
      launch: (): void =>
        launchFusedLayer(context.stream, { ...args, attention: attention ?? 0n, residual: residual ?? 0n }),
    };
  });
}
