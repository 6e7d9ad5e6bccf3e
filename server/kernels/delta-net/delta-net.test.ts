import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordDeltaNet } from "./delta-net.ggml.ts";
import { deltaNetRef } from "./delta-net.ref.ts";

const SHAPES = [
  { numKeyHeads: 2, numValueHeads: 2, size: 16, length: 7, count: 1 },
  { numKeyHeads: 2, numValueHeads: 6, size: 8, length: 3, count: 2 },
  { numKeyHeads: 1, numValueHeads: 4, size: 32, length: 1, count: 3 },
] as const;

const softplus = (value: number): number => Math.log1p(Math.exp(value));
const unit = (values: readonly number[]): number[] => {
  const length = Math.sqrt(values.reduce((sum, value) => sum + value * value, 1e-6));
  return values.map((value) => value / length);
};

for (const shape of SHAPES) {
  const { numKeyHeads, numValueHeads, size, length, count } = shape;
  test(`recordDeltaNet() agrees with the reference: ${JSON.stringify(shape)}`, async () => {
    const rows = length * count;
    const width = (2 * numKeyHeads + numValueHeads) * size;
    const rowWidth = 2 * numValueHeads + 3;
    const qkv = randomFloats(rows * width, 1);
    const x = randomFloats(rows * rowWidth, 2);
    const timeBias = randomFloats(numValueHeads, 3);
    const decay = randomFloats(numValueHeads, 4).map((value) => -Math.abs(value) - 0.1);
    const stateWidth = numValueHeads * size * size;
    const actual = await runOp((graph) =>
      recordDeltaNet(graph, {
        ...shape,
        qkv: graph.input("f32", [rows, width], qkv),
        x: graph.input("f32", [rows, rowWidth], x),
        betaColumn: 1,
        decayColumn: numValueHeads + 2,
        timeBias: graph.input("f32", [numValueHeads], timeBias),
        decay: graph.input("f32", [numValueHeads], decay),
        states: graph.input("f32", [count, stateWidth], new Float32Array(count * stateWidth)),
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
    const wanted = new Float32Array(rows * numValueHeads * size);
    for (let sequence = 0; sequence < count; sequence++) {
      for (let head = 0; head < numValueHeads; head++) {
        const keyHead = Math.floor((head * numKeyHeads) / numValueHeads);
        const tokens = Array.from({ length }, (_, i) => sequence * length + i);
        const part = (first: number): number[][] =>
          tokens.map((row) => [...qkv.subarray(row * width + first * size, row * width + (first + 1) * size)]);
        const out = deltaNetRef({
          q: Float32Array.from(part(keyHead).flatMap(unit)),
          k: Float32Array.from(part(numKeyHeads + keyHead).flatMap(unit)),
          v: Float32Array.from(part(2 * numKeyHeads + head).flat()),
          beta: Float32Array.from(tokens, (row) => 1 / (1 + Math.exp(-(x[row * rowWidth + 1 + head] ?? 0)))),
          logDecay: Float32Array.from(
            tokens,
            (row) =>
              softplus((x[row * rowWidth + numValueHeads + 2 + head] ?? 0) + (timeBias[head] ?? 0)) *
              (decay[head] ?? 0),
          ),
          size,
        });
        for (const [i, row] of tokens.entries())
          wanted.set(out.subarray(i * size, (i + 1) * size), (row * numValueHeads + head) * size);
      }
    }
    assert.ok(maxDifference(actual, wanted) < 1e-5, `off by ${maxDifference(actual, wanted)}`);
  });
}
