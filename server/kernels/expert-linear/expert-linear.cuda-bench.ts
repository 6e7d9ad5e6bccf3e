/** Grouped GEMM of 128 experts, as of Qwen3-30B-A3B. Source: expert-linear.cu. */
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { seededInts, uploadPattern } from "../testing/cuda-check-data.ts";
import { type ExpertLinearCudaArgs, launchExpertLinear, launchGroupByExpert } from "./expert-linear.cuda.ts";

/** At the shapes of Llama-3.1-8B, unless named otherwise. */
export const cudaBenches: readonly CudaBenchSet[] = [{ name: "expert-linear bf16", benches }];

function benches(context: CudaCheckContext): readonly CudaBench[] {
  const [numExperts, numChosen, inputs, outputs] = [128, 8, 2048, 1536];
  const weight = uploadPattern(context, "bf16", numExperts * outputs * inputs);
  return [1, 16, 64, 2048].map((numTokens) => {
    const numChoices = numTokens * numChosen;
    const ids = seededInts(numChoices, 1, numExperts);
    const args: ExpertLinearCudaArgs = {
      type: "bf16",
      ids: context.upload(ids),
      numChoices,
      numExperts,
      starts: context.allocate((numExperts + 1) * 4),
      order: context.allocate(numChoices * 4),
      choicesPerRow: numChosen,
      x: uploadPattern(context, "bf16", numTokens * inputs),
      weight,
      out: context.allocate(numChoices * outputs * 2),
      inputs,
      outputs,
    };
    launchGroupByExpert(context.stream, args);
    return {
      name: `${numTokens} tokens, 8 of 128 experts`,
      bytes: new Set(ids).size * outputs * inputs * 2,
      flops: 2 * numChoices * outputs * inputs,
      launch: (): void => launchExpertLinear(context.stream, args),
    };
  });
}
