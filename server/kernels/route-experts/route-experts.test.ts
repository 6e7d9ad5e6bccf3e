import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordRouteExperts } from "./route-experts.ggml.ts";
import { routeExpertsRef } from "./route-experts.ref.ts";

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

test("recordRouteExperts() refuses to choose more experts than there are", async () => {
  const run = runOp((graph) => {
    const logits = graph.input("f32", [1, 4], new Float32Array(4));
    return recordRouteExperts(graph, { logits, numChosen: 5, isRenormalized: true }).weights;
  });
  await assert.rejects(run, /expected 1 to 4 chosen experts, got 5/);
});
