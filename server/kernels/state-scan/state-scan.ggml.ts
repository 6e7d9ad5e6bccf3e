/**
 * Mamba-2's scan over the tokens of sequences of equal length. The states of a sequence are a row of a table, which is read
 * and then replaced. Bound by the bytes of the states in decode. Source: Mamba-2 (Dao and Gu 2024); ggml.h, ggml_ssm_scan.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";
import type { EqualRun } from "../causal-conv/causal-conv.ggml.ts";

export interface StateScanArgs {
  /** [count * length, numHeads * headDim + 2 * numGroups * stateSize]: x, B and C of the run. */
  readonly xbc: CpuTensor;
  /** Rows of the whole step: each head has a number for its time step from `timeColumn` on. */
  readonly x: CpuTensor; // [numTokens, rowWidth]
  readonly timeColumn: number;
  readonly timeBias: CpuTensor; // [numHeads]
  /** Negative: minus the exponential of what files hold. */
  readonly decay: CpuTensor; // [numHeads]
  readonly skip: CpuTensor; // [numHeads]
  readonly states: CpuTensor; // [numSlots, numHeads * headDim * stateSize]
  readonly run: EqualRun;
  readonly numHeads: number;
  readonly headDim: number;
  readonly stateSize: number;
  readonly numGroups: number;
}

/** [count * length, numHeads * headDim] */
export function recordStateScan(graph: CpuGraph, args: StateScanArgs): CpuTensor {
  checkArgs(args);
  const { base } = graph.ggml;
  const { xbc, x, states, run, numHeads, headDim, stateSize, numGroups } = args;
  const { length, count, slots } = run;
  const [rows, width] = [length * count, numHeads * headDim];
  const rowBytes = (xbc.shape[1] ?? 0) * 4;
  const part = (inner: number, outer: number, first: number): bigint =>
    base.view4d(
      ...([graph.claim(), xbc.handle, inner, outer, length, count] as const),
      ...([inner * 4, rowBytes, length * rowBytes, first * 4] as const),
    );
  const values = part(headDim, numHeads, 0);
  const [b, c] = [part(stateSize, numGroups, width), part(stateSize, numGroups, width + numGroups * stateSize)];
  const stepBytes = (x.shape[1] ?? 0) * 4;
  const offset = run.firstToken * stepBytes + args.timeColumn * 4;
  const raw = base.cont(graph.claim(), base.view2d(graph.claim(), x.handle, numHeads, rows, stepBytes, offset));
  const time = base.add(graph.claim(), raw, args.timeBias.handle);
  const steps = base.reshape3d(graph.claim(), time, numHeads, length, count);
  const decay = base.reshape2d(graph.claim(), args.decay.handle, 1, numHeads);
  const [numSlots = 0] = states.shape;
  const table = base.reshape4d(graph.claim(), states.handle, stateSize, headDim, numHeads, numSlots);
  const both = base.ssmScan(graph.claim(), table, values, steps, decay, b, c, slots.handle, 1);
  const size = stateSize * width;
  const next = base.view2d(graph.claim(), both, size, count, size * 4, rows * width * 4);
  graph.expand(base.setRows(graph.claim(), states.handle, next, slots.handle));
  const scanned = base.view3d(graph.claim(), both, headDim, numHeads, rows, headDim * 4, width * 4, 0);
  const passed = base.view3d(graph.claim(), xbc.handle, headDim, numHeads, rows, headDim * 4, rowBytes, 0);
  const skip = base.reshape2d(graph.claim(), args.skip.handle, 1, numHeads);
  const sum = base.add(graph.claim(), base.mul(graph.claim(), passed, skip), scanned);
  return { handle: base.reshape2d(graph.claim(), sum, width, rows), type: "f32", shape: [rows, width] };
}

function checkArgs(args: StateScanArgs): void {
  const { xbc, x, timeColumn, timeBias, decay, skip, states, run, numHeads, headDim, stateSize, numGroups } = args;
  const width = numHeads * headDim;
  expectTensor("stateScan xbc", xbc, ["f32"], [run.count * run.length, width + 2 * numGroups * stateSize]);
  expectTensor("stateScan x", x, ["f32"], [-1, -1]);
  for (const each of [timeBias, decay, skip]) expectTensor("stateScan heads", each, ["f32"], [numHeads]);
  expectTensor("stateScan states", states, ["f32"], [-1, width * stateSize]);
  expectTensor("stateScan slots", run.slots, ["i32"], [run.count]);
  const [numTokens = 0, rowWidth = 0] = x.shape;
  if (timeColumn + numHeads > rowWidth || run.firstToken + run.count * run.length > numTokens)
    throw new Error(`stateScan: columns up to ${timeColumn + numHeads} and the run exceed [${numTokens}, ${rowWidth}]`);
  if (numHeads % numGroups !== 0) throw new Error(`stateScan: ${numGroups} groups do not divide ${numHeads} heads`);
}
