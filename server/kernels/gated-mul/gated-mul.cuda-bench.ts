/** Bandwidth of SwiGLU. Source: gated-mul.cu. */
import { ELEM_BYTES } from "../cuda/launch-args.ts";
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import { launchGatedMul } from "./gated-mul.cuda.ts";

/** At the shapes of Llama-3.1-8B, unless named otherwise. */
export const cudaBenches: readonly CudaBenchSet[] = [{ name: "gated-mul silu bf16", benches }];

function benches(context: CudaCheckContext): readonly CudaBench[] {
  const width = 14336;
  return [1, 64, 4096].map((numRows) => {
    const gateUp = uploadPattern(context, "bf16", 2 * numRows * width);
    const out = context.allocate(numRows * width * ELEM_BYTES.bf16);
    return {
      name: `${numRows} rows of ${width}`,
      bytes: 3 * numRows * width * ELEM_BYTES.bf16,
      flops: 5 * numRows * width,
      launch: (): void =>
        launchGatedMul(context.stream, { type: "bf16", activation: "silu", gateUp, out, numRows, width }),
    };
  });
}
