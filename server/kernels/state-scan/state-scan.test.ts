import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordStateScan } from "./state-scan.ggml.ts";
import { stateScanRef } from "./state-scan.ref.ts";

const SHAPES = [
  { numHeads: 4, headDim: 8, stateSize: 16, numGroups: 1, length: 6, count: 1 },
  { numHeads: 4, headDim: 4, stateSize: 8, numGroups: 2, length: 3, count: 2 },
  { numHeads: 2, headDim: 16, stateSize: 32, numGroups: 1, length: 1, count: 3 },
] as const;

for (const shape of SHAPES) {
  const { numHeads, headDim, stateSize, numGroups, length, count } = shape;
  test(`recordStateScan() agrees with the reference: ${JSON.stringify(shape)}`, async () => {
    const rows = length * count;
    const inner = numHeads * headDim;
    const width = inner + 2 * numGroups * stateSize;
    const rowWidth = numHeads + 3;
    const xbc = randomFloats(rows * width, 1);
    const x = randomFloats(rows * rowWidth, 2);
    const [timeBias, skip] = [randomFloats(numHeads, 3), randomFloats(numHeads, 5)];
    const decay = randomFloats(numHeads, 4).map((value) => -Math.abs(value) - 0.1);
    const size = inner * stateSize;
    const actual = await runOp((graph) =>
      recordStateScan(graph, {
        ...shape,
        xbc: graph.input("f32", [rows, width], xbc),
        x: graph.input("f32", [rows, rowWidth], x),
        timeColumn: 2,
        timeBias: graph.input("f32", [numHeads], timeBias),
        decay: graph.input("f32", [numHeads], decay),
        skip: graph.input("f32", [numHeads], skip),
        states: graph.input("f32", [count, size], new Float32Array(count * size)),
        run: {
          firstToken: 0,
          length,
          count,
          slots: graph.input(
            "i32",
            [count],
            Int32Array.from({ length: count }, (_, i) => i),
          ),
        },
      }),
    );
    const wanted = new Float32Array(rows * inner);
    for (let sequence = 0; sequence < count; sequence++) {
      for (let head = 0; head < numHeads; head++) {
        const group = Math.floor((head * numGroups) / numHeads);
        const tokens = Array.from({ length }, (_, i) => sequence * length + i);
        const part = (first: number, wide: number): Float32Array =>
          Float32Array.from(
            tokens.flatMap((row) => [...xbc.subarray(row * width + first, row * width + first + wide)]),
          );
        const out = stateScanRef({
          x: part(head * headDim, headDim),
          b: part(inner + group * stateSize, stateSize),
          c: part(inner + (numGroups + group) * stateSize, stateSize),
          time: Float32Array.from(tokens, (row) => (x[row * rowWidth + 2 + head] ?? 0) + (timeBias[head] ?? 0)),
          decay: decay[head] ?? 0,
          skip: skip[head] ?? 0,
          headDim,
          stateSize,
        });
        for (const [i, row] of tokens.entries())
          wanted.set(out.subarray(i * headDim, (i + 1) * headDim), row * inner + head * headDim);
      }
    }
    assert.ok(maxDifference(actual, wanted) < 1e-5, `off by ${maxDifference(actual, wanted)}`);
  });
}
