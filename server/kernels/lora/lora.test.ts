import assert from "node:assert/strict";
import { test } from "node:test";
import { recordLinear } from "../linear/linear.ggml.ts";
import { linearRef } from "../linear/linear.ref.ts";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordLora } from "./lora.ggml.ts";
import { loraRef } from "./lora.ref.ts";
import { groupKeptRows, groupRows, type LoraRows } from "./lora-rows.ts";

const NUM_ROWS = 9;
const INPUTS = 24;
const WIDTH = 40;
/** Parts of a stacked projection: ranks and outputs differ, and columns between them belong to no adapter. */
const PARTS = [
  { rank: 4, outputs: 16, column: 0 },
  { rank: 3, outputs: 8, column: 24 },
].map(({ rank, outputs, column }, i) => ({
  rank,
  outputs,
  column,
  a: randomFloats(rank * INPUTS, 10 + i),
  b: randomFloats(outputs * rank, 20 + i),
}));

const ROWS: readonly (readonly [name: string, rows: LoraRows, ids: readonly number[]])[] = [
  ["all rows", { kind: "range", first: 0, count: NUM_ROWS }, [0, 1, 2, 3, 4, 5, 6, 7, 8]],
  ["a run of rows", { kind: "range", first: 2, count: 4 }, [2, 3, 4, 5]],
  ["the last row", { kind: "range", first: 8, count: 1 }, [8]],
  ["scattered rows", { kind: "scattered", ids: Int32Array.of(7, 1, 4) }, [7, 1, 4]],
];

for (const [name, rows, ids] of ROWS) {
  test(`recordLora() agrees with the reference on ${name}, and the next op reads the sum`, async () => {
    const x = randomFloats(NUM_ROWS * INPUTS, 1);
    const weight = randomFloats(WIDTH * INPUTS, 2);
    const next = randomFloats(6 * WIDTH, 3);
    const actual = await runOp((graph) => {
      const input = graph.input("f32", [NUM_ROWS, INPUTS], x);
      const y = recordLinear(graph, { x: input, weight: graph.input("f32", [WIDTH, INPUTS], weight) });
      const sum = recordLora(graph, {
        x: input,
        y,
        rows:
          rows.kind === "range" ? rows : { kind: "scattered", ids: graph.input("i32", [rows.ids.length], rows.ids) },
        parts: PARTS.map(({ rank, outputs, column, a, b }) => ({
          column,
          a: graph.input("f32", [rank, INPUTS], a),
          b: graph.input("f32", [outputs, rank], b),
        })),
      });
      return recordLinear(graph, { x: sum, weight: graph.input("f32", [6, WIDTH], next) });
    });
    const y = linearRef({ x, weight, inputs: INPUTS });
    const sum = loraRef({ x, y, inputs: INPUTS, width: WIDTH, rows: ids, parts: PARTS });
    assert.ok(maxDifference(actual, linearRef({ x: sum, weight: next, inputs: WIDTH })) < 1e-4);
  });
}

test("recordLora() adds two adapters to rows of their own", async () => {
  const x = randomFloats(4 * INPUTS, 1);
  const y = new Float32Array(4 * WIDTH);
  const [first, second] = PARTS;
  assert.ok(first && second);
  const groups: readonly (readonly [readonly number[], typeof first])[] = [
    [[0, 2], first],
    [[1, 3], second],
  ];
  const actual = await runOp((graph) => {
    const input = graph.input("f32", [4, INPUTS], x);
    let sum = graph.input("f32", [4, WIDTH], y);
    for (const [ids, { rank, outputs, column, a, b }] of groups) {
      const part = { column, a: graph.input("f32", [rank, INPUTS], a), b: graph.input("f32", [outputs, rank], b) };
      const rows = { kind: "scattered", ids: graph.input("i32", [2], Int32Array.from(ids)) } as const;
      sum = recordLora(graph, { x: input, y: sum, rows, parts: [part] });
    }
    return sum;
  });
  let expected = y;
  for (const [rows, part] of groups) {
    expected = new Float32Array(loraRef({ x, y: expected, inputs: INPUTS, width: WIDTH, rows, parts: [part] }));
  }
  assert.ok(maxDifference(actual, expected) < 1e-4);
});

const REFUSED: readonly (readonly [name: string, rows: LoraRows, column: number, expected: RegExp])[] = [
  ["rows beyond the last", { kind: "range", first: 1, count: 2 }, 0, /lora: rows 1 to 2 of 2/],
  ["columns beyond the last", { kind: "range", first: 0, count: 2 }, 5, /lora b: 4 outputs from column 5 on, of 8/],
];
for (const [name, rows, column, expected] of REFUSED) {
  test(`recordLora() refuses ${name} before ggml sees them`, async () => {
    const run = runOp((graph) => {
      const a = graph.input("f32", [2, 4], new Float32Array(8));
      const b = graph.input("f32", [4, 2], new Float32Array(8));
      const x = graph.input("f32", [2, 4], new Float32Array(8));
      const y = graph.input("f32", [2, 8], new Float32Array(16));
      if (rows.kind !== "range") throw new Error("expected a range");
      return recordLora(graph, { x, y, rows, parts: [{ a, b, column }] });
    });
    await assert.rejects(run, expected);
  });
}

const SPANS = [
  { queryStart: 0, queryLength: 2, adapter: 5 },
  { queryStart: 2, queryLength: 1 },
  { queryStart: 3, queryLength: 3, adapter: 7 },
  { queryStart: 6, queryLength: 1, adapter: 5 },
];

test("groupRows() makes one group of the rows of an adapter and none of rows without", () => {
  assert.deepEqual(groupRows(SPANS), [
    { adapter: 5, rows: { kind: "scattered", ids: Int32Array.of(0, 1, 6) } },
    { adapter: 7, rows: { kind: "range", first: 3, count: 3 } },
  ]);
  assert.deepEqual(groupRows([{ queryStart: 0, queryLength: 4 }]), []);
});

test("groupKeptRows() numbers rows by their place among those that are kept", () => {
  assert.deepEqual(groupKeptRows(SPANS, Int32Array.of(6, 2, 5, 1)), [
    { adapter: 5, rows: { kind: "scattered", ids: Int32Array.of(0, 3) } },
    { adapter: 7, rows: { kind: "range", first: 2, count: 1 } },
  ]);
  assert.deepEqual(groupKeptRows(SPANS, Int32Array.of(2)), []);
});
