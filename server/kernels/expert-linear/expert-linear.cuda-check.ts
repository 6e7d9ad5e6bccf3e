/**
 * Mixture of experts on a GPU: routing, products in f32 and weighted sum, each against its reference.
 * Sources: plain-expert-linear.cu, route-experts.cu, mix-experts.cu.
 */
import type { ElemType } from "../cuda/launch-args.ts";
import { withExpertBiases } from "../expert-gemm/expert-gemm.ref.ts";
import { launchMixExperts } from "../mix-experts/mix-experts.cuda.ts";
import { mixExpertsRef } from "../mix-experts/mix-experts.ref.ts";
import { launchRouteExperts } from "../route-experts/route-experts.cuda.ts";
import { routeExpertsRef } from "../route-experts/route-experts.ref.ts";
import { type CudaCheck, type CudaCheckContext, relativeError, shareOfDifferences } from "../testing/cuda-check.ts";
import { downloadFloats, seededInts, uploadRandom } from "../testing/cuda-check-data.ts";
import { type ExpertLinearCudaArgs, launchExpertLinear } from "./expert-linear.cuda.ts";
import { expertLinearRef } from "./expert-linear.ref.ts";

interface Variant {
  readonly numTokens: number;
  readonly numExperts: number;
  readonly numChosen: number;
  readonly inputs: number;
  readonly outputs: number;
  readonly rowsPerToken: "one" | "own";
  readonly hasBias?: boolean;
}

const VARIANTS: readonly Variant[] = [
  { numTokens: 9, numExperts: 8, numChosen: 2, inputs: 96, outputs: 72, rowsPerToken: "one" },
  {
    numTokens: 5,
    numExperts: 8,
    numChosen: 2,
    inputs: 96,
    outputs: 72,
    rowsPerToken: "own",
    hasBias: true,
  },
];

export const cudaChecks: readonly CudaCheck[] = [
  ...(["f32", "bf16"] as const).flatMap((type) =>
    [true, false].map((isRenormalized) => ({
      name: `route-experts ${type}${isRenormalized ? " renormalized" : ""}`,
      maxError: 1e-5,
      run: (context: CudaCheckContext) => runRoute(context, type, isRenormalized),
    })),
  ),
  ...VARIANTS.map((variant) => ({
    name: `expert-linear f32 ${variant.numTokens} tokens, ${variant.numChosen} of ${variant.numExperts}`,
    maxError: 1e-5,
    run: (context: CudaCheckContext) => runProducts(context, variant),
  })),
];

async function runRoute(context: CudaCheckContext, type: ElemType, isRenormalized: boolean): Promise<number> {
  const [numTokens, numExperts, numChosen] = [37, 60, 8];
  const logits = uploadRandom(context, type, numTokens * numExperts, 1, 4);
  const count = numTokens * numChosen;
  const out = { ids: context.allocate(count * 4), weights: context.allocate(count * 4) };
  launchRouteExperts(context.stream, {
    type,
    logits: logits.pointer,
    ...out,
    numTokens,
    numExperts,
    numChosen,
    isRenormalized,
  });
  const ids = new Int32Array(count);
  await context.download(out.ids, ids);
  const weights = await downloadFloats(context, "f32", out.weights, count);
  const expected = routeExpertsRef({ logits: logits.values, numExperts, numChosen, isRenormalized });
  return Math.max(shareOfDifferences(ids, expected.ids), relativeError(weights, expected.weights));
}

async function runProducts(context: CudaCheckContext, variant: Variant): Promise<number> {
  const { numTokens, numExperts, numChosen, inputs, outputs, rowsPerToken, hasBias = false } = variant;
  const numChoices = numTokens * numChosen;
  const ids = seededInts(numChoices, 1, numExperts);
  const numRows = rowsPerToken === "one" ? numTokens : numChoices;
  const x = uploadRandom(context, "f32", numRows * inputs, 2);
  const weight = uploadRandom(context, "f32", numExperts * outputs * inputs, 3);
  const bias = uploadRandom(context, "f32", numExperts * outputs, 5);
  const shares = uploadRandom(context, "f32", numChoices, 4);
  const args: ExpertLinearCudaArgs = {
    ids: context.upload(ids),
    numChoices,
    choicesPerRow: rowsPerToken === "one" ? numChosen : 1,
    x: x.pointer,
    weight: weight.pointer,
    bias: hasBias ? bias.pointer : undefined,
    out: context.allocate(numChoices * outputs * 4),
    inputs,
    outputs,
  };
  const mixed = context.allocate(numTokens * outputs * 4);
  launchExpertLinear(context.stream, args);
  const sum = { x: args.out, weights: shares.pointer, out: mixed, numTokens, numChosen, width: outputs };
  launchMixExperts(context.stream, { type: "f32", ...sum });
  const result = await downloadFloats(context, "f32", args.out, numChoices * outputs);
  const resultMixed = await downloadFloats(context, "f32", mixed, numTokens * outputs);
  const perToken = rowsPerToken === "one" ? 1 : numChosen;
  const shape = { inputs, outputs, rowsPerToken: perToken, numChosen };
  const products = expertLinearRef({ x: x.values, weight: weight.values, ids, ...shape });
  const expected = hasBias ? withExpertBiases(products, ids, bias.values) : products;
  return Math.max(
    relativeError(result, expected),
    relativeError(resultMixed, mixExpertsRef(result, shares.values, numChosen)),
  );
}
