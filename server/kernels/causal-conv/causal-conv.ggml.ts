/**
 * Causal depthwise convolution over the tokens of sequences of equal length. The inputs before the first token are a row of
 * a table for each sequence, which is read and then replaced. Bound by bytes. Source: Mamba (Gu and Dao 2023), section 3.4;
 * ggml.h, ggml_ssm_conv.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";
import type { Address } from "../../src/native/ffi.ts";

/** Sequences side by side in a step, each with as many tokens as the others. */
export interface EqualRun {
  readonly firstToken: number;
  /** Tokens of each sequence. */
  readonly length: number;
  readonly count: number;
  /** [count] the rows of their states; the caller has checked them. */
  readonly slots: CpuTensor;
}

export interface CausalConvArgs {
  readonly x: CpuTensor; // [numTokens, rowWidth]
  /** First element of a token's row that is convolved. */
  readonly column: number;
  readonly kernels: CpuTensor; // [channels, width]
  readonly bias?: CpuTensor | undefined; // [channels]
  readonly states: CpuTensor; // [numSlots, channels * (width - 1)]
  readonly run: EqualRun;
  readonly hasSilu: boolean;
}

/** [count * length, channels] */
export function recordCausalConv(graph: CpuGraph, args: CausalConvArgs): CpuTensor {
  const { kernels, bias, states, run, hasSilu } = args;
  const [channels = 0, width = 0] = kernels.shape;
  const { length, count, slots } = run;
  checkArgs(args, channels, width);
  const { base } = graph.ggml;
  const kept = width - 1;
  const before = base.getRows(graph.claim(), states.handle, slots.handle);
  const old = base.reshape3d(graph.claim(), before, kept, channels, count);
  const inputs = base.concat(graph.claim(), old, recordColumns(graph, args, channels), 0);
  const rowBytes = (kept + length) * 4;
  const last = base.view3d(graph.claim(), inputs, kept, channels, count, rowBytes, channels * rowBytes, length * 4);
  const next = base.reshape2d(graph.claim(), base.cont(graph.claim(), last), kept * channels, count);
  graph.expand(base.setRows(graph.claim(), states.handle, next, slots.handle));
  const summed = base.ssmConv(graph.claim(), inputs, kernels.handle);
  const biased = bias === undefined ? summed : base.add(graph.claim(), summed, bias.handle);
  const active = hasSilu ? base.silu(graph.claim(), biased) : biased;
  const handle = base.reshape2d(graph.claim(), active, channels, length * count);
  return { handle, type: "f32", shape: [length * count, channels] };
}

/** The run's part of `x` as [length, channels, count] of ggml, tokens innermost. */
function recordColumns(graph: CpuGraph, { x, column, run }: CausalConvArgs, channels: number): Address {
  const { base } = graph.ggml;
  const rowBytes = (x.shape[1] ?? 0) * 4;
  const { firstToken, length, count } = run;
  const offset = firstToken * rowBytes + column * 4;
  const rows = base.view3d(graph.claim(), x.handle, channels, length, count, rowBytes, length * rowBytes, offset);
  return base.transpose(graph.claim(), rows);
}

function checkArgs({ x, column, bias, kernels, states, run }: CausalConvArgs, channels: number, width: number): void {
  expectTensor("causalConv x", x, ["f32"], [-1, -1]);
  expectTensor("causalConv kernels", kernels, ["f32"], [-1, -1]);
  if (bias !== undefined) expectTensor("causalConv bias", bias, ["f32"], [channels]);
  expectTensor("causalConv states", states, ["f32"], [-1, channels * (width - 1)]);
  expectTensor("causalConv slots", run.slots, ["i32"], [run.count]);
  const [numTokens = 0, rowWidth = 0] = x.shape;
  const end = run.firstToken + run.count * run.length;
  if (width < 2 || column < 0 || column + channels > rowWidth || end > numTokens) {
    const got = `${channels} channels from ${column} on and tokens up to ${end}`;
    throw new Error(`causalConv: expected a part of [${numTokens}, ${rowWidth}], got ${got}`);
  }
}
