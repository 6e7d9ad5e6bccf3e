import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp, runOpOnBuffer } from "../testing/run-op.ts";
import { recordCausalConv } from "./causal-conv.ggml.ts";
import { causalConvRef } from "./causal-conv.ref.ts";

const [CHANNELS, WIDTH, ROW, LENGTH] = [6, 4, 10, 5];
const KEPT = CHANNELS * (WIDTH - 1);
const x = randomFloats(2 * LENGTH * ROW, 1);
const kernels = randomFloats(CHANNELS * WIDTH, 2);
const bias = randomFloats(CHANNELS, 3);
const table = randomFloats(4 * KEPT, 4);
const SLOTS = [3, 1];

/** The result for one of two sequences of LENGTH tokens, whose channels begin at column 2. */
function expected(sequence: number): ReturnType<typeof causalConvRef> {
  const rows = Array.from({ length: LENGTH }, (_, i) => (sequence * LENGTH + i) * ROW + 2);
  const own = Float32Array.from(rows.flatMap((at) => [...x.subarray(at, at + CHANNELS)]));
  const first = (SLOTS[sequence] ?? 0) * KEPT;
  return causalConvRef({ x: own, kernels, bias, state: table.subarray(first, first + KEPT), hasSilu: true });
}

function record(
  graph: Parameters<Parameters<typeof runOp>[0]>[0],
  states: Parameters<typeof recordCausalConv>[1]["states"],
) {
  return recordCausalConv(graph, {
    x: graph.input("f32", [2 * LENGTH, ROW], x),
    column: 2,
    kernels: graph.input("f32", [CHANNELS, WIDTH], kernels),
    bias: graph.input("f32", [CHANNELS], bias),
    states,
    run: { firstToken: 0, length: LENGTH, count: 2, slots: graph.input("i32", [2], Int32Array.from(SLOTS)) },
    hasSilu: true,
  });
}

test("recordCausalConv() convolves the tokens of each sequence behind its state", async () => {
  const actual = await runOp((graph) => record(graph, graph.input("f32", [4, KEPT], table)));
  const wanted = [0, 1].flatMap((sequence) => [...expected(sequence).y]);
  assert.ok(maxDifference(actual, wanted) < 1e-5);
});

test("recordCausalConv() replaces the states of its sequences and no others", async () => {
  const wanted = table.slice();
  for (const [sequence, slot] of SLOTS.entries()) wanted.set(expected(sequence).state, slot * KEPT);
  const actual = await runOpOnBuffer([4, KEPT], table, (graph, states) => graph.output(record(graph, states)));
  assert.ok(maxDifference(actual, wanted) < 1e-6);
});

test("recordCausalConv() refuses channels that exceed the rows", async () => {
  const run = runOp((graph) =>
    recordCausalConv(graph, {
      x: graph.input("f32", [1, 6], new Float32Array(6)),
      column: 1,
      kernels: graph.input("f32", [CHANNELS, WIDTH], kernels),
      states: graph.input("f32", [4, KEPT], table),
      run: { firstToken: 0, length: 1, count: 1, slots: graph.input("i32", [1], new Int32Array(1)) },
      hasSilu: false,
    }),
  );
  await assert.rejects(run, /expected a part of \[1, 6\], got 6 channels from 1 on/);
});
