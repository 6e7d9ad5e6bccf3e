/** Bandwidth of the fused add and norm, with and without codes. Source: add-norm.cu. */
import { ELEM_BYTES } from "../cuda/launch-args.ts";
import type { OutputCodes } from "../cuda/quantized-output.ts";
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import { launchAddNorm } from "./add-norm.cuda.ts";

const WIDTH = 4096;
const EPSILON = 1e-5;

/** At the shapes of Llama-3.1-8B, unless named otherwise. */
export const cudaBenches: readonly CudaBenchSet[] = ([undefined, "e4m3", "i8"] as const).map((codes) => ({
  name: `add-norm bf16${codes === undefined ? "" : ` to ${codes}`}`,
  benches: (context) => [1, 64, 8192].map((numRows) => bench(context, codes, numRows)),
}));

function bench(context: CudaCheckContext, codes: OutputCodes | undefined, numRows: number): CudaBench {
  const count = numRows * WIDTH;
  const scales = context.allocate(numRows * 4);
  const args = {
    type: "bf16",
    residual: uploadPattern(context, "bf16", count),
    branch: uploadPattern(context, "bf16", count),
    kind: "rms",
    weight: uploadPattern(context, "f32", WIDTH),
    epsilon: EPSILON,
    out: context.allocate(count * ELEM_BYTES.bf16),
    quantized: codes && ({ codes, scales, per: "row" } as const),
    numRows,
    width: WIDTH,
  } as const;
  return {
    name: `${numRows} rows`,
    bytes: count * (3 * ELEM_BYTES.bf16 + (codes ? 1 : ELEM_BYTES.bf16)),
    flops: count * 5,
    launch: (): void => launchAddNorm(context.stream, args),
  };
}
