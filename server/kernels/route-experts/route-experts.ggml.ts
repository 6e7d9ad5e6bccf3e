/**
 * Top-k routing of a mixture of experts: softmax or sigmoid of all, the largest of them, and their weights. Experts may
 * come in groups, of which the best are taken first. Source: Shazeer et al. 2017, DeepSeek-V3 (DeepSeek-AI 2024);
 * ggml.h, ggml_soft_max and ggml_argsort_top_k.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";
import type { Address } from "../../src/native/ffi.ts";
import { recordSparseMixer } from "./sparse-mixer.ggml.ts";

export interface RouteExpertsArgs {
  readonly logits: CpuTensor; // [numTokens, numExperts]
  readonly numChosen: number;
  /** The chosen weights are divided by their sum. */
  readonly isRenormalized: boolean;
  /** Absent: softmax, one group, and weights as they are. */
  readonly routing?: Routing | undefined;
  /** [numExperts], added to the scores for the choice, not to the weights. */
  readonly correction?: CpuTensor | undefined;
  /** [numExperts], by which the weights of the chosen are multiplied at the end; absent: 1. */
  readonly outScale?: CpuTensor | undefined;
}

export interface Routing {
  readonly scores: "softmax" | "sigmoid" | "sparse-mixer";
  /** How far an expert may be from the best, as a part of it; for "sparse-mixer". */
  readonly tolerance?: number | undefined;
  readonly groups?: RoutingGroups | undefined;
  /** Multiplies the weights. */
  readonly scale: number;
}

export interface RoutingGroups {
  readonly numGroups: number;
  readonly numChosen: number;
  /** A group is as good as the sum of this many of its best experts. */
  readonly numBest: number;
}

export interface ExpertRoute {
  /** [numTokens, numChosen], rows apart by the number of experts: for `recordExpertLinear` alone. */
  readonly ids: CpuTensor;
  readonly weights: CpuTensor; // [numTokens, numChosen]
}

export function recordRouteExperts(graph: CpuGraph, args: RouteExpertsArgs): ExpertRoute {
  const { logits, numChosen, isRenormalized, routing, correction } = args;
  expectTensor("routeExperts logits", logits, ["f32"], [-1, -1]);
  const [numTokens = 0, numExperts = 0] = logits.shape;
  if (!Number.isInteger(numChosen) || numChosen < 1 || numChosen > numExperts)
    throw new Error(`routeExperts: expected 1 to ${numExperts} chosen experts, got ${numChosen}`);
  const { base } = graph.ggml;
  if (routing?.scores === "sparse-mixer") return recordMixed(graph, args, routing.tolerance ?? 0);
  const scores =
    routing?.scores === "sigmoid"
      ? base.sigmoid(graph.claim(), logits.handle)
      : base.softMax(graph.claim(), logits.handle);
  const corrected = correction === undefined ? scores : base.add(graph.claim(), scores, correction.handle);
  const grouped = routing?.groups && recordGroupChoice(graph, routing.groups, corrected, [numTokens, numExperts]);
  graph.claim(); // the order of all experts, of which the next call gives a view
  const ids = base.argsortTopK(graph.claim(), grouped ?? corrected, numChosen);
  const rows = base.reshape3d(graph.claim(), scores, 1, numExperts, numTokens);
  const picked = base.getRows(graph.claim(), rows, ids);
  const weights = base.reshape2d(graph.claim(), picked, numChosen, numTokens);
  const shape = [numTokens, numChosen];
  const shares = isRenormalized ? recordShares(graph, weights) : weights;
  const { scale = 1 } = routing ?? {};
  const scaled = scale === 1 ? shares : base.scale(graph.claim(), shares, scale);
  const handle = args.outScale === undefined ? scaled : recordScaled(graph, args.outScale, scaled, ids, shape);
  return { ids: { handle: ids, type: "i32", shape }, weights: { handle, type: "f32", shape } };
}

function recordScaled(
  graph: CpuGraph,
  factors: CpuTensor,
  shares: Address,
  ids: Address,
  [numTokens = 0, numChosen = 0]: readonly number[],
): Address {
  const { base } = graph.ggml;
  const [numExperts = 0] = factors.shape;
  const table = base.repeat4d(graph.claim(), factors.handle, numExperts, numTokens, 1, 1);
  const rows = base.reshape3d(graph.claim(), table, 1, numExperts, numTokens);
  const picked = base.getRows(graph.claim(), rows, ids);
  return base.mul(graph.claim(), shares, base.reshape2d(graph.claim(), picked, numChosen, numTokens));
}

function recordMixed(graph: CpuGraph, { logits, numChosen }: RouteExpertsArgs, tolerance: number): ExpertRoute {
  const [numTokens = 0] = logits.shape;
  if (numChosen !== 2) throw new Error(`routeExperts: expected 2 experts of a sparse mixer, got ${numChosen}`);
  graph.claim();
  const ids = graph.ggml.base.argsortTopK(graph.claim(), logits.handle, numChosen);
  const shape = [numTokens, numChosen];
  const handle = recordSparseMixer(graph, logits, ids, tolerance);
  return { ids: { handle: ids, type: "i32", shape }, weights: { handle, type: "f32", shape } };
}

/** No score of an expert comes near it. */
const OUT_OF_CHOICE = -1e9;

/** Scores of the experts whose group is among the best; those of the others are out of choice. */
function recordGroupChoice(
  graph: CpuGraph,
  { numGroups, numChosen, numBest }: RoutingGroups,
  scores: Address,
  [numTokens, numExperts]: readonly [number, number],
): Address {
  const { base } = graph.ggml;
  const size = numExperts / numGroups;
  if (!Number.isInteger(size) || numBest > size || numChosen > numGroups)
    throw new Error(`routeExperts: ${numExperts} experts in ${numGroups} groups, ${numChosen} of them by ${numBest}`);
  const apart = base.reshape2d(graph.claim(), scores, size, numGroups * numTokens);
  graph.claim();
  const best = base.argsortTopK(graph.claim(), apart, numBest);
  const elements = base.reshape3d(graph.claim(), scores, 1, size, numGroups * numTokens);
  const picked = base.getRows(graph.claim(), elements, best);
  const sums = base.sumRows(graph.claim(), base.reshape2d(graph.claim(), picked, numBest, numGroups * numTokens));
  graph.claim();
  const chosen = base.argsortTopK(graph.claim(), base.reshape2d(graph.claim(), sums, numGroups, numTokens), numChosen);
  const groups = base.reshape3d(graph.claim(), scores, size, numGroups, numTokens);
  const kept = base.getRows(graph.claim(), groups, chosen);
  const none = base.scaleBias(graph.claim(), groups, 0, OUT_OF_CHOICE);
  const merged = base.setRows(graph.claim(), none, kept, chosen);
  return base.reshape2d(graph.claim(), merged, numExperts, numTokens);
}

function recordShares(graph: CpuGraph, weights: bigint): bigint {
  const { base } = graph.ggml;
  return base.div(graph.claim(), weights, base.sumRows(graph.claim(), weights));
}
