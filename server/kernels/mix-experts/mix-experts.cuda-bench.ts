/** Bandwidth of the weighted sum of experts. Source: mix-experts.cu. */
import { ELEM_BYTES } from "../cuda/launch-args.ts";
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import { launchMixExperts } from "./mix-experts.cuda.ts";

const NUM_CHOSEN = 8;
const WIDTH = 2048;

/** At the shapes of Qwen3-30B-A3B. */
export const cudaBenches: readonly CudaBenchSet[] = [
  { name: "mix-experts bf16", benches: (context) => [1, 64, 4096].map((numTokens) => bench(context, numTokens)) },
];

function bench(context: CudaCheckContext, numTokens: number): CudaBench {
  const count = numTokens * WIDTH;
  const args = {
    type: "bf16",
    x: uploadPattern(context, "bf16", NUM_CHOSEN * count),
    weights: uploadPattern(context, "f32", NUM_CHOSEN * numTokens),
    out: context.allocate(count * ELEM_BYTES.bf16),
    numTokens,
    numChosen: NUM_CHOSEN,
    width: WIDTH,
  } as const;
  return {
    name: `${numTokens} tokens`,
    bytes: (NUM_CHOSEN + 1) * count * ELEM_BYTES.bf16,
    flops: 2 * NUM_CHOSEN * count,
    launch: (): void => launchMixExperts(context.stream, args),
  };
}
