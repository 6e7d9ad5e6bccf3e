import assert from "node:assert/strict";
import { test } from "node:test";
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../src/device/cpu/cpu-tensor.ts";
import { recordExpertLinear } from "../expert-linear/expert-linear.ggml.ts";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordRouteExperts } from "./route-experts.ggml.ts";
import { routeExpertsRef } from "./route-experts.ref.ts";

function reshaped(graph: CpuGraph, tensor: CpuTensor): CpuTensor {
  const [outer = 0, middle = 0, inner = 0] = tensor.shape;
  return { ...tensor, handle: graph.ggml.base.reshape3d(graph.claim(), tensor.handle, inner, middle, outer) };
}

const CASES = [
  { numTokens: 1, numExperts: 8, numChosen: 2, isRenormalized: true },
  { numTokens: 9, numExperts: 5, numChosen: 3, isRenormalized: false },
  { numTokens: 4, numExperts: 6, numChosen: 6, isRenormalized: true },
  { numTokens: 3, numExperts: 4, numChosen: 1, isRenormalized: false },
] as const;

for (const shape of CASES) {
  test(`recordRouteExperts() agrees with the reference for ${JSON.stringify(shape)}`, async () => {
    const { numTokens, numExperts } = shape;
    const logits = randomFloats(numTokens * numExperts, 5).map((value) => value * 4);
    const actual = await runOp((graph) => {
      const route = recordRouteExperts(graph, {
        ...shape,
        logits: graph.input("f32", [numTokens, numExperts], logits),
      });
      return route.weights;
    });
    assert.ok(maxDifference(actual, routeExpertsRef({ ...shape, logits }).weights) < 1e-6);
  });
}

test("recordRouteExperts() chooses experts that exist when logits are no numbers", async () => {
  for (const odd of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
    const logits = randomFloats(8 * 128, 5).map((value, i) => (i % 3 === 0 ? odd : value));
    const weight = randomFloats(128 * 4 * 8, 6);
    const products = await runOp((graph) => {
      const route = recordRouteExperts(graph, {
        logits: graph.input("f32", [8, 128], logits),
        numChosen: 8,
        isRenormalized: true,
      });
      const experts = { ...graph.input("f32", [128 * 4, 8], weight), shape: [128, 4, 8] };
      const x = graph.input("f32", [8, 8], randomFloats(64, 7));
      graph.expand(route.weights.handle);
      // A number of no expert would end the process here.
      return recordExpertLinear(graph, { x, weight: reshaped(graph, experts), ids: route.ids });
    });
    assert.ok(products.every(Number.isFinite));
  }
});

test("recordRouteExperts() refuses to choose more experts than there are", async () => {
  const run = runOp((graph) => {
    const logits = graph.input("f32", [1, 4], new Float32Array(4));
    return recordRouteExperts(graph, { logits, numChosen: 5, isRenormalized: true }).weights;
  });
  await assert.rejects(run, /expected 1 to 4 chosen experts, got 5/);
});

/** Weights of the two best, in double precision. Source: transformers, modeling_phimoe.py, `sparsemixer()`. */
function mixed(logits: readonly number[], tolerance: number): readonly number[] {
  const order = [...logits.keys()].sort((a, b) => (logits[b] ?? 0) - (logits[a] ?? 0)).slice(0, 2);
  return order.map((id, place) => {
    const best = logits[id] ?? 0;
    const near = [...logits.entries()].filter(([other, value]) => {
      const isTaken = place === 1 && other === order[0];
      return !isTaken && (best - value) / Math.max(Math.abs(value), best) <= 2 * tolerance;
    });
    return Math.exp(best) / near.reduce((sum, [, value]) => sum + Math.exp(value), 0);
  });
}

for (const tolerance of [0.01, 0.2]) {
  test(`recordRouteExperts() mixes the experts near the two best, within ${tolerance}`, async () => {
    const [numTokens, numExperts] = [9, 6];
    const logits = randomFloats(numTokens * numExperts, 8).map((value) => value + 1.5);
    const routing = { scores: "sparse-mixer" as const, scale: 1, tolerance };
    const actual = await runOp((graph) => {
      const given = graph.input("f32", [numTokens, numExperts], logits);
      return recordRouteExperts(graph, { logits: given, numChosen: 2, isRenormalized: false, routing }).weights;
    });
    const rows = Array.from({ length: numTokens }, (_, i) => [
      ...logits.subarray(i * numExperts, (i + 1) * numExperts),
    ]);
    assert.ok(
      maxDifference(
        actual,
        rows.flatMap((row) => mixed(row, tolerance)),
      ) < 1e-6,
    );
  });
}
