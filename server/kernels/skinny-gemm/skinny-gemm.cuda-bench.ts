/** Skinny GEMMs of a layer and of the logits; weights rotate, so that none stays in the L2 cache. Source: skinny-gemm.cu. */
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import { launchSkinnyGemm, type SkinnyWeightType } from "./skinny-gemm.cuda.ts";

/** At the shapes of Llama-3.1-8B, unless named otherwise. */
export const cudaBenches: readonly CudaBenchSet[] = (["bf16", "e4m3"] as const).map((weightType) => ({
  name: `skinny-gemm ${weightType}`,
  benches: (context) => benches(context, weightType),
}));

function benches(context: CudaCheckContext, weightType: SkinnyWeightType): readonly CudaBench[] {
  const shapes: readonly (readonly [outputs: number, inputs: number])[] = [
    [6144, 4096],
    [4096, 4096],
    [28672, 4096],
    [4096, 14336],
    [128256, 4096],
  ];
  const elementBytes = weightType === "bf16" ? 2 : 1;
  return shapes.flatMap(([outputs, inputs]) => {
    const bytes = outputs * inputs * elementBytes;
    const copies = Math.max(2, Math.ceil(2 ** 28 / bytes));
    const weights = Array.from({ length: copies }, () => uploadPattern(context, "bf16", bytes / 2));
    const scales = uploadPattern(context, "f32", outputs);
    return [1, 4, 8, 16].map((numRows) => {
      const x = uploadPattern(context, "bf16", numRows * inputs);
      const out = context.allocate(numRows * outputs * 2);
      return {
        name: `${numRows} rows ${outputs} x ${inputs}`,
        bytes,
        flops: 2 * numRows * outputs * inputs,
        launch: (round: number): void => {
          const weight = weights[round % copies];
          if (weight === undefined) return;
          const shape = { numRows, outputs, inputs, weightType, outputType: "bf16" } as const;
          launchSkinnyGemm(context.stream, { x, weight, scales, out, ...shape });
        },
      };
    });
  });
}
