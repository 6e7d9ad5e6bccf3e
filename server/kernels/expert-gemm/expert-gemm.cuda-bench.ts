/** Grouped GEMMs of a mixture of experts, at shapes of Qwen3-30B-A3B and gpt-oss-20b. Source: expert-tiles.cu. */
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { seededOrder, uploadPattern } from "../testing/cuda-check-data.ts";
import { type ExpertGemmCudaArgs, launchExpertGemm } from "./expert-gemm.cuda.ts";
import type { ExpertWeightType } from "./expert-plan.ts";

interface Shape {
  readonly numExperts: number;
  readonly numChosen: number;
  readonly inputs: number;
  readonly outputs: number;
  readonly isGated: boolean;
}

/** Both GEMMs of a layer. */
const QWEN: readonly Shape[] = [
  { numExperts: 128, numChosen: 8, inputs: 2048, outputs: 768, isGated: true },
  { numExperts: 128, numChosen: 8, inputs: 768, outputs: 2048, isGated: false },
];
const NUM_TOKENS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 2048, 8192];
const BYTES: Readonly<Record<ExpertWeightType, number>> = { bf16: 2, e4m3: 1, mxfp4: 17 / 32 };
/** Weights rotate past the L2 cache. */
const COPIES_BYTES = 2 ** 28;

export const cudaBenches: readonly CudaBenchSet[] = (["bf16", "e4m3", "mxfp4"] as const).map((weightType) => ({
  name: `expert-gemm ${weightType}`,
  benches: (context) => QWEN.flatMap((shape) => benches(context, weightType, shape)),
}));

function benches(context: CudaCheckContext, weightType: ExpertWeightType, shape: Shape): readonly CudaBench[] {
  const { numExperts, inputs, outputs, isGated } = shape;
  const matrixRows = numExperts * outputs * (isGated ? 2 : 1);
  const bytes = matrixRows * inputs * BYTES[weightType];
  const weights = Array.from({ length: Math.max(2, Math.ceil(COPIES_BYTES / bytes)) }, () =>
    uploadPattern(context, "bf16", Math.ceil(bytes / 2)),
  );
  const scaleBytes = { bf16: 0, e4m3: 4 * matrixRows, mxfp4: (matrixRows * inputs) / 32 }[weightType];
  const scales = scaleBytes > 0 ? context.zeros(scaleBytes) : undefined;
  return NUM_TOKENS.map((numTokens) => bench(context, { weightType, shape, weights, scales, numTokens }));
}

interface Case {
  readonly weightType: ExpertWeightType;
  readonly shape: Shape;
  readonly weights: readonly bigint[];
  readonly scales: bigint | undefined;
  readonly numTokens: number;
}

function bench(context: CudaCheckContext, { weightType, shape, weights, scales, numTokens }: Case): CudaBench {
  const { numExperts, numChosen, inputs, outputs, isGated } = shape;
  const numChoices = numTokens * numChosen;
  const order = new Int32Array(numExperts * numTokens);
  const counts = new Int32Array(numExperts);
  for (let token = 0; token < numTokens; token++) {
    seededOrder(numExperts, token + 1)
      .subarray(0, numChosen)
      .forEach((expert, place) => {
        order[expert * numTokens + (counts[expert] ?? 0)] = token * numChosen + place;
        counts[expert] = (counts[expert] ?? 0) + 1;
      });
  }
  const rows = isGated ? numTokens : numChoices;
  const args: Omit<ExpertGemmCudaArgs, "weight"> = {
    weightType,
    scales,
    lists: { counts: context.upload(counts), order: context.upload(order) },
    choicesPerRow: isGated ? numChosen : 1,
    x: uploadPattern(context, "bf16", rows * inputs),
    out: context.allocate(numChoices * outputs * 2),
    gatedBy: isGated ? "silu" : undefined,
    followsGemm: !isGated,
    numChoices,
    numTokens,
    numExperts,
    inputs,
    outputs,
  };
  const matrixRows = outputs * (isGated ? 2 : 1);
  return {
    name: `${numTokens} tokens, ${numChosen} of ${numExperts}, ${matrixRows} x ${inputs}`,
    bytes: counts.filter((count) => count > 0).length * matrixRows * inputs * BYTES[weightType],
    flops: 2 * numChoices * matrixRows * inputs,
    launch: (round): void => {
      const weight = weights[round % weights.length];
      if (weight !== undefined) launchExpertGemm(context.stream, { ...args, weight });
    },
  };
}
