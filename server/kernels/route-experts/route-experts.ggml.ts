/**
 * Top-k routing of a mixture of experts: softmax over all, the largest of them, and their weights. Source: Shazeer et
 * al. 2017; ggml.h, ggml_soft_max and ggml_argsort_top_k.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface RouteExpertsArgs {
  readonly logits: CpuTensor; // [numTokens, numExperts]
  readonly numChosen: number;
  /** The chosen weights are divided by their sum. */
  readonly isRenormalized: boolean;
}

export interface ExpertRoute {
  /** [numTokens, numChosen], rows apart by the number of experts: for `recordExpertLinear` alone. */
  readonly ids: CpuTensor;
  readonly weights: CpuTensor; // [numTokens, numChosen]
}

export function recordRouteExperts(graph: CpuGraph, args: RouteExpertsArgs): ExpertRoute {
  const { logits, numChosen, isRenormalized } = args;
  expectTensor("routeExperts logits", logits, ["f32"], [-1, -1]);
  const [numTokens = 0, numExperts = 0] = logits.shape;
  if (!Number.isInteger(numChosen) || numChosen < 1 || numChosen > numExperts)
    throw new Error(`routeExperts: expected 1 to ${numExperts} chosen experts, got ${numChosen}`);
  const { base } = graph.ggml;
  const shares = base.softMax(graph.claim(), logits.handle);
  graph.claim(); // the order of all experts, of which the next call gives a view
  const ids = base.argsortTopK(graph.claim(), shares, numChosen);
  const rows = base.reshape3d(graph.claim(), shares, 1, numExperts, numTokens);
  const picked = base.getRows(graph.claim(), rows, ids);
  const weights = base.reshape2d(graph.claim(), picked, numChosen, numTokens);
  const shape = [numTokens, numChosen];
  return {
    ids: { handle: ids, type: "i32", shape },
    weights: { handle: isRenormalized ? recordShares(graph, weights) : weights, type: "f32", shape },
  };
}

function recordShares(graph: CpuGraph, weights: bigint): bigint {
  const { base } = graph.ggml;
  return base.div(graph.claim(), weights, base.sumRows(graph.claim(), weights));
}
