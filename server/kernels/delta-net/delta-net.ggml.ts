/**
 * The gated delta rule over the tokens of sequences of equal length: a matrix for each value head forgets a part of itself,
 * then learns the difference between a value and what it knows for the key. The matrices of a sequence are a row of a
 * table, which is read and then replaced. Bound by the bytes of the matrices in decode. Source: Gated DeltaNet (Yang et al.
 * 2024); ggml.h, ggml_gated_delta_net.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";
import type { Address } from "../../src/native/ffi.ts";
import type { EqualRun } from "../causal-conv/causal-conv.ggml.ts";

export interface DeltaNetArgs {
  /** [count * length, (2 * numKeyHeads + numValueHeads) * size]: queries, keys, values of the run, not normalized. */
  readonly qkv: CpuTensor;
  /** Rows of the whole step: each value head has a number for beta from `betaColumn` on, and one for its decay. */
  readonly x: CpuTensor; // [numTokens, rowWidth]
  readonly betaColumn: number;
  readonly decayColumn: number;
  readonly timeBias: CpuTensor; // [numValueHeads]
  /** Negative: minus the exponential of what files hold. */
  readonly decay: CpuTensor; // [numValueHeads]
  readonly states: CpuTensor; // [numSlots, numValueHeads * size * size]
  readonly run: EqualRun;
  readonly numKeyHeads: number;
  readonly numValueHeads: number;
  /** Size of a head, of keys as of values. */
  readonly size: number;
}

/** Added to the squared length of queries and keys. */
const LENGTH_EPSILON = 1e-6;

/** [count * length, numValueHeads * size] */
export function recordDeltaNet(graph: CpuGraph, args: DeltaNetArgs): CpuTensor {
  checkArgs(args);
  const { base } = graph.ggml;
  const { qkv, states, run, numKeyHeads, numValueHeads, size } = args;
  const { length, count, slots } = run;
  const rows = length * count;
  const [q, k] = recordKeys(graph, args);
  const rowBytes = (qkv.shape[1] ?? 0) * 4;
  const v = base.view4d(
    ...([graph.claim(), qkv.handle, size, numValueHeads, length, count] as const),
    ...([size * 4, rowBytes, length * rowBytes, 2 * numKeyHeads * size * 4] as const),
  );
  const shaped = (one: Address): Address => base.reshape4d(graph.claim(), one, 1, numValueHeads, length, count);
  const beta = shaped(base.sigmoid(graph.claim(), recordHeads(graph, args, args.betaColumn)));
  const time = base.add(graph.claim(), recordHeads(graph, args, args.decayColumn), args.timeBias.handle);
  const logDecay = shaped(base.mul(graph.claim(), base.softplus(graph.claim(), time), args.decay.handle));
  const before = base.getRows(graph.claim(), states.handle, slots.handle);
  const old = base.reshape4d(graph.claim(), before, size, size, numValueHeads, count);
  const both = base.gatedDeltaNet(graph.claim(), q, k, v, logDecay, beta, old, 1);
  const width = numValueHeads * size;
  const next = base.view2d(graph.claim(), both, size * width, count, size * width * 4, rows * width * 4);
  graph.expand(base.setRows(graph.claim(), states.handle, next, slots.handle));
  const handle = base.view2d(graph.claim(), both, width, rows, width * 4, 0);
  return { handle, type: "f32", shape: [rows, width] };
}

/** Queries and keys of length 1, a copy for each value head that reads them. */
function recordKeys(graph: CpuGraph, { qkv, run, numKeyHeads, numValueHeads, size }: DeltaNetArgs): [Address, Address] {
  const { base } = graph.ggml;
  const { length, count } = run;
  const rows = length * count;
  const rowBytes = (qkv.shape[1] ?? 0) * 4;
  const heads = base.view3d(graph.claim(), qkv.handle, size, 2 * numKeyHeads, rows, size * 4, rowBytes, 0);
  // The mean of squares is theirs of the length over the size.
  const normed = base.rmsNorm(graph.claim(), heads, LENGTH_EPSILON / size);
  const unit = base.scale(graph.claim(), normed, 1 / Math.sqrt(size));
  const repeats = numValueHeads / numKeyHeads;
  const part = (first: number): Address => {
    const bytes = [size * 4, 2 * numKeyHeads * size * 4] as const;
    const view = base.view3d(graph.claim(), unit, size, numKeyHeads, rows, ...bytes, first * size * 4);
    const whole = base.cont(graph.claim(), view);
    const flat = base.reshape4d(graph.claim(), whole, size, 1, numKeyHeads, rows);
    const wide = repeats === 1 ? flat : base.repeat4d(graph.claim(), flat, size, repeats, numKeyHeads, rows);
    return base.reshape4d(graph.claim(), wide, size, numValueHeads, length, count);
  };
  return [part(0), part(numKeyHeads)];
}

/** A number for each value head of the run's rows: [count * length, numValueHeads]. */
function recordHeads(graph: CpuGraph, { x, run, numValueHeads }: DeltaNetArgs, column: number): Address {
  const { base } = graph.ggml;
  const rowBytes = (x.shape[1] ?? 0) * 4;
  const offset = run.firstToken * rowBytes + column * 4;
  return base.cont(
    graph.claim(),
    base.view2d(graph.claim(), x.handle, numValueHeads, run.length * run.count, rowBytes, offset),
  );
}

function checkArgs(args: DeltaNetArgs): void {
  const { qkv, x, timeBias, decay, states, run, numKeyHeads, numValueHeads, size } = args;
  expectTensor("deltaNet qkv", qkv, ["f32"], [run.count * run.length, (2 * numKeyHeads + numValueHeads) * size]);
  expectTensor("deltaNet x", x, ["f32"], [-1, -1]);
  expectTensor("deltaNet timeBias", timeBias, ["f32"], [numValueHeads]);
  expectTensor("deltaNet decay", decay, ["f32"], [numValueHeads]);
  expectTensor("deltaNet states", states, ["f32"], [-1, numValueHeads * size * size]);
  expectTensor("deltaNet slots", run.slots, ["i32"], [run.count]);
  if (numValueHeads % numKeyHeads !== 0)
    throw new Error(`deltaNet: expected value heads that ${numKeyHeads} divides, got ${numValueHeads}`);
  const [numTokens = 0, rowWidth = 0] = x.shape;
  const end = Math.max(args.betaColumn, args.decayColumn) + numValueHeads;
  if (end > rowWidth || run.firstToken + run.count * run.length > numTokens)
    throw new Error(`deltaNet: columns up to ${end} and the run exceed [${numTokens}, ${rowWidth}]`);
}
