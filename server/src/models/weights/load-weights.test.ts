import assert from "node:assert/strict";
import { test } from "node:test";
import type { WeightType } from "../../device/cpu/convert-elements.ts";
import type { StoredTensor } from "../../formats/tensors/tensor-source.ts";
import { expectSource, loadWeights, type WeightSink } from "./load-weights.ts";
import type { WeightPlan, WeightSource } from "./weight-plan.ts";

/** Files whose tensors hold the numbers 0, 1, 2 and so on. */
function files(shapes: Readonly<Record<string, readonly number[]>>): { tensors: Map<string, StoredTensor> } {
  const entries = Object.entries(shapes).map(([name, shape]) => {
    const byteLength = 4 * shape.reduce((product, size) => product * size, 1);
    return [name, { name, dtype: "F32", shape, byteLength }] as const;
  });
  return { tensors: new Map(entries) };
}

function source(name: string, shape: readonly number[], change: WeightSource["change"] = "none"): WeightSource {
  return { name, shape, change };
}

function planOf(shape: readonly [number, number], sources: readonly WeightSource[]): WeightPlan {
  return { kind: "matrix", isGemmOperand: true, shape, sources };
}

/** Writes down pieces as [element, values], read into room of its own when `givesRoom`. */
function recorder(
  maxElements: number,
  givesRoom = false,
  type: WeightType = "f32",
): {
  readonly sink: WeightSink<WeightPlan>;
  readonly pieces: (readonly [element: number, values: readonly number[]])[];
} {
  const pieces: (readonly [number, readonly number[]])[] = [];
  const sink: WeightSink<WeightPlan> = {
    fillWhole: async ({ sources }) => sources[0]?.name === "whole",
    typeOf: () => type,
    maxElements: () => maxElements,
    read: async (_stored, element, count) =>
      new Uint8Array(Float32Array.from({ length: count }, (_, i) => element + i).buffer),
    convert: (_from, _to, bytes) => bytes,
    write: async (_plan, element, count, read) => {
      const room = new Float32Array(count);
      const bytes = await read(givesRoom ? new Uint8Array(room.buffer) : undefined);
      const values = givesRoom ? room : new Float32Array(bytes.buffer, bytes.byteOffset, count);
      pieces.push([element, [...values]]);
    },
  };
  return { sink, pieces };
}

for (const givesRoom of [false, true]) {
  const how = givesRoom ? "into the sink's room" : "wherever they lie";
  test(`loadWeights() stacks sources in pieces of whole rows, ${how}`, async () => {
    const { sink, pieces } = recorder(5, givesRoom);
    const plan = planOf([5, 2], [source("a", [3, 2]), source("b", [2, 2])]);
    await loadWeights([plan], files({ a: [3, 2], b: [2, 2] }), sink);
    assert.deepEqual(pieces, [
      [0, [0, 1, 2, 3]],
      [4, [4, 5]],
      [6, [0, 1, 2, 3]],
    ]);
  });

  test(`loadWeights() transposes and adds one, ${how}`, async () => {
    const { sink, pieces } = recorder(4, givesRoom);
    const shapes = { a: [2, 3], n: [1, 2] };
    const plans = [
      planOf([3, 2], [source("a", [2, 3], "transpose")]),
      planOf([1, 2], [source("n", [1, 2], "add-one")]),
    ];
    await loadWeights(plans, files(shapes), sink);
    assert.deepEqual(pieces, [
      [0, [0, 3, 1, 4]],
      [4, [2, 5]],
      [0, [1, 2]],
    ]);
  });
}

test("loadWeights() gives at least one row at a time, and nothing of a tensor that the sink fills whole", async () => {
  const { sink, pieces } = recorder(2);
  const plans = [planOf([1, 4], [source("whole", [1, 4])]), planOf([2, 4], [source("a", [2, 4])])];
  await loadWeights(plans, files({ a: [2, 4] }), sink);
  assert.deepEqual(
    pieces.map(([element, values]) => [element, values.length]),
    [
      [0, 4],
      [4, 4],
    ],
  );
});

test("loadWeights() adds one in f32 only", async () => {
  const plan = planOf([1, 2], [source("n", [1, 2], "add-one")]);
  const { sink } = recorder(4, false, "bf16");
  await assert.rejects(loadWeights([plan], files({ n: [1, 2] }), sink), /"n": one is added to f32 only, not to bf16/);
});

test("expectSource() names what is missing or of another shape", () => {
  const typeOf = ({ dtype }: StoredTensor): string => dtype;
  const { tensors } = files({ a: [2, 3] });
  assert.equal(expectSource(source("a", [2, 3]), { tensors }, typeOf), "F32");
  assert.throws(() => expectSource(source("b", [2]), { tensors }, typeOf), /lack tensor "b" \[2\]/);
  assert.throws(
    () => expectSource(source("a", [3, 2]), { tensors }, typeOf),
    /expected \[3, 2\] from the config, got \[2, 3\]/,
  );
});
