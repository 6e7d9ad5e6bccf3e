import assert from "node:assert/strict";
import { test } from "node:test";
import type { WeightType } from "../../device/cpu/convert-elements.ts";
import type { WeightKind } from "./weight-plan.ts";
import { chooseType, weightTypeOf } from "./weight-types.ts";

const CHOICES: readonly (readonly [
  kind: WeightKind,
  row: number,
  stored: readonly WeightType[],
  wish: WeightType | undefined,
  expected: WeightType,
])[] = [
  ["matrix", 64, ["bf16"], undefined, "f32"],
  ["matrix", 64, ["bf16"], "bf16", "bf16"],
  ["matrix", 64, ["bf16"], "q4_1", "q4_1"],
  ["vocabulary", 64, ["bf16"], "q4_1", "q8_0"],
  ["vocabulary", 64, ["bf16"], "f16", "f16"],
  ["exact", 64, ["bf16"], "q8_0", "f32"],
  ["matrix", 72, ["bf16"], "q8_0", "bf16"],
  ["matrix", 128, ["bf16"], "q4_K", "bf16"],
  ["matrix", 256, ["bf16"], "q4_K", "q4_K"],
  ["matrix", 64, ["q4_1", "q4_1"], undefined, "q4_1"],
  ["vocabulary", 64, ["q4_0"], undefined, "q4_0"],
  ["matrix", 256, ["q4_K", "q4_K", "q6_K"], undefined, "q8_0"],
  ["matrix", 64, ["q4_0", "f32"], undefined, "q8_0"],
  ["matrix", 64, ["q4_0"], "f32", "f32"],
];

for (const [kind, row, stored, wish, expected] of CHOICES) {
  test(`chooseType() keeps a ${kind} of ${row} columns stored as ${stored.join(", ")} in ${expected} when ${wish ?? "nothing"} is wished`, () => {
    assert.equal(chooseType({ kind, shape: [4, row] }, stored, wish), expected);
  });
}

test("chooseType() keeps importance-weighted blocks only where they stay as they are stored", () => {
  const source = { name: "w", shape: [256, 256] };
  const plan = { kind: "matrix" as const, shape: [4, 256] as const };
  assert.equal(chooseType({ ...plan, sources: [{ ...source, change: "none" }] }, ["iq2_xs"], undefined), "iq2_xs");
  assert.equal(chooseType({ ...plan, sources: [{ ...source, change: "transpose" }] }, ["iq2_xs"], undefined), "q8_0");
  assert.equal(chooseType({ ...plan, shape: [4, 128] }, ["iq4_xs"], undefined), "bf16");
});

test("weightTypeOf() knows what holds weights", () => {
  assert.equal(weightTypeOf("Q6_K"), "q6_K");
  assert.equal(weightTypeOf("I64"), undefined);
});
