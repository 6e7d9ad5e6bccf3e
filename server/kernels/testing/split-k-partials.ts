/** Split-K partial sums for checks of the kernels that read them. Source: split-K of CUTLASS's efficient GEMM guide. */
import type { SplitKPartials } from "../cuda/quantized-output.ts";
import type { CudaCheckContext } from "./cuda-check.ts";
import { uploadRandom } from "./cuda-check-data.ts";

export interface CheckPartials {
  readonly parts: SplitKPartials;
  /** Their sums. */
  readonly values: Float32Array;
}

/** `size` sums in `count` parts of numbers up to `spread`. */
export function uploadPartials(
  context: CudaCheckContext,
  count: number,
  size: number,
  seed: number,
  spread: number,
): CheckPartials {
  const { pointer, values } = uploadRandom(context, "f32", count * size, seed, spread);
  const sums = new Float32Array(size);
  for (let i = 0; i < values.length; i++) sums[i % size] = (sums[i % size] ?? 0) + (values[i] ?? 0);
  return { parts: { address: pointer, count }, values: sums };
}
