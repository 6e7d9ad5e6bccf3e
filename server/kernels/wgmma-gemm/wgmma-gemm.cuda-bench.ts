/** WGMMA GEMMs of a layer. Source: wgmma-gemm.cu. */
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import { launchWgmmaGemm, type WgmmaWeightType, wgmmaTileConfig } from "./wgmma-gemm.cuda.ts";

/** At the shapes of Llama-3.1-8B, unless named otherwise. */
export const cudaBenches: readonly CudaBenchSet[] = (["bf16", "e4m3"] as const).map((weightType) => ({
  name: `wgmma-gemm ${weightType}`,
  needsWgmma: true,
  benches: (context) => benches(context, weightType),
}));

/** The GEMMs of a layer of an 8B model, left as their readers take them; weights rotate, so that none stays in the L2 cache. */
function benches(context: CudaCheckContext, weightType: WgmmaWeightType): readonly CudaBench[] {
  return BENCHES.flatMap(({ matrixRows, inputs, isGated }) => {
    const bytes = matrixRows * inputs * (weightType === "bf16" ? 2 : 1);
    const copies = Math.max(2, Math.ceil(2 ** 28 / bytes));
    const weights = Array.from({ length: copies }, () => uploadPattern(context, "bf16", bytes / 2));
    const columns = uploadPattern(context, "f32", matrixRows);
    const rows = uploadPattern(context, "f32", MAX_BENCH_ROWS);
    const outputs = isGated ? matrixRows / 2 : matrixRows;
    return [16, 32, MAX_BENCH_ROWS].map((numRows) => {
      const x = uploadPattern(context, "bf16", numRows * inputs);
      const shape = { weightType, numRows, matrixRows, inputs, isGated, keepsPartials: !isGated };
      const form = wgmmaTileConfig(context.stream, shape);
      const out = context.allocate((form?.splits ?? 1) * numRows * outputs * 4);
      return {
        name: `${numRows} rows ${matrixRows} x ${inputs}`,
        bytes,
        flops: 2 * numRows * matrixRows * inputs,
        launch: (round: number): void => {
          const weight = weights[round % copies];
          if (weight === undefined || form === undefined) return;
          const sizes = { weightType, numRows, outputs, inputs, x, weight, out } as const;
          const scales = weightType === "e4m3" ? { rows, columns } : undefined;
          launchWgmmaGemm(context.stream, { ...sizes, scales, gatedBy: isGated ? "silu" : undefined }, form);
        },
      };
    });
  });
}

const MAX_BENCH_ROWS = 64;
const BENCHES = [
  { matrixRows: 6144, inputs: 4096, isGated: false },
  { matrixRows: 4096, inputs: 4096, isGated: false },
  { matrixRows: 28672, inputs: 4096, isGated: true },
  { matrixRows: 4096, inputs: 14336, isGated: false },
] as const;
