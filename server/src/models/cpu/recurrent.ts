/** Layers with a state as a list of ops: from the projected rows of a step to the rows of the output projection. */
import { type EqualRun, recordCausalConv } from "../../../kernels/causal-conv/causal-conv.ggml.ts";
import { recordDeltaNet } from "../../../kernels/delta-net/delta-net.ggml.ts";
import { recordStateScan } from "../../../kernels/state-scan/state-scan.ggml.ts";
import { expectAt } from "../../core/expect-at.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { RecurrentLayer } from "../config/decoder-config.ts";
import { type RecurrentShape, recurrentShape } from "../config/recurrent-shape.ts";
import type { RecurrentWeights } from "../weights/weight-plan.ts";
import type { DecoderModel, DecoderSequence, LayerState } from "./decoder-model.ts";

/** Graph tensors of one run of a layer, at most. */
export const RECURRENT_TENSORS_PER_RUN = 64;

interface Recorded {
  readonly graph: CpuGraph;
  readonly x: CpuTensor; // [numTokens, inputs]
  readonly run: EqualRun;
  readonly shape: RecurrentShape;
  readonly weights: RecurrentWeights<CpuTensor>;
  readonly states: LayerState;
  readonly epsilon: number;
}

/** Neighbours of equal length are computed together: all sequences that decode, mostly. */
export function equalRuns(sequences: readonly DecoderSequence[]): readonly (readonly DecoderSequence[])[] {
  const runs: DecoderSequence[][] = [];
  for (const sequence of sequences) {
    const last = runs.at(-1);
    if (last?.[0]?.queryLength === sequence.queryLength) last.push(sequence);
    else runs.push([sequence]);
  }
  return runs;
}

/** The runs of a step with their slots in the graph; all layers share them. */
export function recordRuns(graph: CpuGraph, sequences: readonly DecoderSequence[]): readonly EqualRun[] {
  return equalRuns(sequences).map((run) => {
    const slots = Int32Array.from(run, ({ state }) => state ?? 0);
    const { queryStart: firstToken = 0, queryLength: length = 0 } = run[0] ?? {};
    return { firstToken, length, count: run.length, slots: graph.input("i32", [run.length], slots) };
  });
}

/** Updates the states of the sequences; [numTokens, outputs]. */
export function recordRecurrent(
  graph: CpuGraph,
  { config, weights: all, states }: DecoderModel,
  index: number,
  x: CpuTensor,
  runs: readonly EqualRun[],
): CpuTensor {
  const { recurrent: layer, hiddenSize, norm } = config;
  const { recurrent: weights } = expectAt(all.layers, index);
  const own = states[index];
  if (layer === undefined || weights === undefined || own === undefined) throw new Error(`layer ${index} has no state`);
  const shape = recurrentShape(layer, hiddenSize);
  const parts = runs.map((run) =>
    recordRun(layer, { graph, x, run, shape, weights, states: own, epsilon: norm.epsilon }),
  );
  const [only] = parts;
  const numTokens = x.shape[0] ?? 0;
  if (only !== undefined && parts.length === 1) return only;
  const { base } = graph.ggml;
  const width = shape.outputs;
  const out = graph.empty("f32", [numTokens, width]);
  for (const [i, { firstToken, length, count }] of runs.entries()) {
    const part = expectAt(parts, i).handle;
    const rows = base.view2d(graph.claim(), out.handle, width, length * count, width * 4, firstToken * width * 4);
    graph.expand(base.copy(graph.claim(), part, rows));
  }
  return out;
}

function recordRun(layer: RecurrentLayer, recorded: Recorded): CpuTensor {
  switch (layer.kind) {
    case "delta-net":
      return recordDeltaRun(layer, recorded);
    case "mamba-2":
      return recordMambaRun(layer, recorded);
    case "short-conv":
      return recordShortRun(recorded);
  }
}

function recordConv({ graph, x, run, shape, weights, states }: Recorded): CpuTensor {
  const { conv: kernels, convBias: bias } = weights;
  const { convColumn: column } = shape;
  return recordCausalConv(graph, { x, column, kernels, bias, states: states.conv, run, hasSilu: true });
}

/** Rows of the step are [queries | keys | values | gates | betas | decays]. */
function recordDeltaRun(layer: Extract<RecurrentLayer, { kind: "delta-net" }>, recorded: Recorded): CpuTensor {
  const { graph, x, run, shape, weights, states, epsilon } = recorded;
  const { numValueHeads, numKeyHeads, headDim: size } = layer;
  const { convChannels: gatesAt, outputs: width } = shape;
  const { timeBias, decay, norm } = weights;
  if (timeBias === undefined || decay === undefined || norm === undefined || states.rest === undefined)
    throw new Error("Gated DeltaNet lacks a tensor");
  const betaColumn = gatesAt + width;
  const mixed = recordDeltaNet(graph, {
    ...({
      qkv: recordConv(recorded),
      x,
      betaColumn,
      decayColumn: betaColumn + numValueHeads,
      timeBias,
      decay,
    } as const),
    ...({ states: states.rest, run, numKeyHeads, numValueHeads, size } as const),
  });
  const { base } = graph.ggml;
  const rows = run.length * run.count;
  const heads = base.reshape3d(graph.claim(), mixed.handle, size, numValueHeads, rows);
  const normed = base.mul(graph.claim(), base.rmsNorm(graph.claim(), heads, epsilon), norm.handle);
  const flat = base.reshape2d(graph.claim(), normed, width, rows);
  const handle = base.swigluSplit(graph.claim(), recordPart(recorded, gatesAt, width), flat);
  return { handle, type: "f32", shape: [rows, width] };
}

/** Rows of the step are [gates | x | B | C | time steps]. The gate is applied in front of the norm of each group. */
function recordMambaRun(layer: Extract<RecurrentLayer, { kind: "mamba-2" }>, recorded: Recorded): CpuTensor {
  const { graph, x, run, shape, weights, states, epsilon } = recorded;
  const { numHeads, headDim, stateSize, numGroups } = layer;
  const { timeBias, decay, skip, norm } = weights;
  if (
    timeBias === undefined ||
    decay === undefined ||
    skip === undefined ||
    norm === undefined ||
    states.rest === undefined
  )
    throw new Error("Mamba-2 lacks a tensor");
  const scanned = recordStateScan(graph, {
    ...({ xbc: recordConv(recorded), x, timeColumn: shape.convColumn + shape.convChannels } as const),
    ...({ timeBias, decay, skip, states: states.rest, run, numHeads, headDim, stateSize, numGroups } as const),
  });
  const { base } = graph.ggml;
  const rows = run.length * run.count;
  const width = shape.outputs;
  const gated = base.swigluSplit(graph.claim(), recordPart(recorded, 0, width), scanned.handle);
  const groups = base.reshape3d(graph.claim(), gated, width / numGroups, numGroups, rows);
  const normed = base.reshape2d(graph.claim(), base.rmsNorm(graph.claim(), groups, epsilon), width, rows);
  return { handle: base.mul(graph.claim(), normed, norm.handle), type: "f32", shape: [rows, width] };
}

/** Rows of the step are [gates in front | gates behind | x]. */
function recordShortRun({ graph, x, run, shape, weights, states }: Recorded): CpuTensor {
  const { base } = graph.ggml;
  const width = shape.outputs;
  const rows = run.length * run.count;
  const part = (column: number): CpuTensor["handle"] => recordPart({ graph, x, run }, column, width);
  const inputs = base.mul(graph.claim(), part(0), part(2 * width));
  const convolved = recordCausalConv(graph, {
    ...({ x: { handle: inputs, type: "f32", shape: [rows, width] }, column: 0, kernels: weights.conv } as const),
    ...({ bias: weights.convBias, states: states.conv, run: { ...run, firstToken: 0 }, hasSilu: false } as const),
  });
  const handle = base.mul(graph.claim(), convolved.handle, part(width));
  return { handle, type: "f32", shape: [rows, width] };
}

/** Columns of the run's rows, side by side: [length * count, width]. */
function recordPart(
  { graph, x, run }: Pick<Recorded, "graph" | "x" | "run">,
  column: number,
  width: number,
): CpuTensor["handle"] {
  const { base } = graph.ggml;
  const rowBytes = (x.shape[1] ?? 0) * 4;
  const offset = run.firstToken * rowBytes + column * 4;
  const view = base.view2d(graph.claim(), x.handle, width, run.length * run.count, rowBytes, offset);
  return base.cont(graph.claim(), view);
}
