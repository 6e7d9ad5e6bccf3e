/**
 * GEMM of each token's rows with the matrices of its experts; rows of one expert are computed together. Bound by the
 * bytes of the chosen experts for few tokens. Source: ggml.h, ggml_mul_mat_id; Shazeer et al. 2017.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor, WEIGHT_TYPES } from "../../src/device/cpu/cpu-tensor.ts";

export interface ExpertLinearArgs {
  /** [numTokens, inputs], the same row for all experts of a token; or [numTokens * numChosen, inputs], one for each. */
  readonly x: CpuTensor;
  readonly weight: CpuTensor; // [numExperts, outputs, inputs]
  /** [numTokens, numChosen]; the caller vouches that each is an expert, for ggml aborts on others. */
  readonly ids: CpuTensor;
  readonly bias?: CpuTensor | undefined; // [numExperts, outputs]
}

/** [numTokens * numChosen, outputs] */
export function recordExpertLinear(graph: CpuGraph, { x, weight, ids, bias }: ExpertLinearArgs): CpuTensor {
  expectTensor("expertLinear ids", ids, ["i32"], [-1, -1]);
  const [numTokens = 0, numChosen = 0] = ids.shape;
  expectTensor("expertLinear x", x, ["f32"], [-1, -1]);
  const [numRows = 0, inputs = 0] = x.shape;
  expectTensor("expertLinear weight", weight, WEIGHT_TYPES, [-1, -1, inputs]);
  const outputs = weight.shape[1] ?? 0;
  if (numRows !== numTokens && numRows !== numTokens * numChosen)
    throw new Error(`expertLinear x: ${numRows} rows for ${numTokens} tokens of ${numChosen} experts`);
  const { base } = graph.ggml;
  const rows = base.reshape3d(graph.claim(), x.handle, inputs, numRows / numTokens, numTokens);
  let product = base.mulMatId(graph.claim(), weight.handle, rows, ids.handle);
  if (bias !== undefined) {
    expectTensor("expertLinear bias", bias, ["f32"], [weight.shape[0] ?? 0, outputs]);
    product = base.addId(graph.claim(), product, bias.handle, ids.handle);
  }
  const flat = base.reshape2d(graph.claim(), product, outputs, numTokens * numChosen);
  return { handle: flat, type: "f32", shape: [numTokens * numChosen, outputs] };
}
