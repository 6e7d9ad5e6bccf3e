/** Time of the choice of experts. Source: route-experts.cu. */
import { ELEM_BYTES } from "../cuda/launch-args.ts";
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import { launchRouteExperts } from "./route-experts.cuda.ts";

const NUM_EXPERTS = 128;
const NUM_CHOSEN = 8;

/** At the shapes of Qwen3-30B-A3B. */
export const cudaBenches: readonly CudaBenchSet[] = [
  { name: "route-experts bf16", benches: (context) => [1, 64, 4096].map((numTokens) => bench(context, numTokens)) },
];

function bench(context: CudaCheckContext, numTokens: number): CudaBench {
  const numIds = numTokens * NUM_CHOSEN;
  const args = {
    type: "bf16",
    logits: uploadPattern(context, "bf16", numTokens * NUM_EXPERTS),
    ids: context.allocate(4 * numIds),
    weights: context.allocate(4 * numIds),
    numTokens,
    numExperts: NUM_EXPERTS,
    numChosen: NUM_CHOSEN,
    isRenormalized: true,
  } as const;
  return {
    name: `${numTokens} tokens`,
    bytes: numTokens * NUM_EXPERTS * ELEM_BYTES.bf16 + 8 * numIds,
    flops: 0,
    launch: (): void => launchRouteExperts(context.stream, args),
  };
}
