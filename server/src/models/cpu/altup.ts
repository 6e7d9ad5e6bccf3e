/**
 * Alternating updates as a list of ops: streams of a token side by side in a row, [numTokens, streams * hidden]. Source: Baykal et al.
 * 2023 (AltUp); transformers, modeling_gemma3n.py.
 */
import { recordGelu } from "../../../kernels/gelu/gelu.ggml.ts";
import { recordLinear } from "../../../kernels/linear/linear.ggml.ts";
import { recordRmsNorm } from "../../../kernels/rms-norm/rms-norm.ggml.ts";
import { recordScale } from "../../../kernels/scale/scale.ggml.ts";
import { expectAt } from "../../core/expect-at.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import type { AltUpWeights } from "../weights/weight-plan.ts";
import type { DecoderModel } from "./decoder-model.ts";

type Address = CpuTensor["handle"];

/** Graph tensors of a layer, and of the model for each stream, at most. */
export const ALTUP_TENSORS = 80;
export const ALTUP_TENSORS_PER_STREAM = 32;
/** Keeps rows of zeros finite where magnitudes are taken over. */
const TINY = 1e-12;

/** The streams of the first rows: those, and their projections of the same magnitude. */
export function recordStreams(graph: CpuGraph, { weights }: DecoderModel, x: CpuTensor): CpuTensor {
  const { base } = graph.ggml;
  const size = recordMagnitude(graph, x);
  const parts = weights.altUp.map(({ to }) => recordSized(graph, recordLinear(graph, { x, ...to }), size).handle);
  const handle = parts.reduce((row, part) => base.concat(graph.claim(), row, part, 0), x.handle);
  const [numTokens = 0, hidden = 0] = x.shape;
  return { handle, type: "f32", shape: [numTokens, hidden * (parts.length + 1)] };
}

/** The mean of the streams, each projected back to the magnitude of the first. */
export function recordMerged(graph: CpuGraph, { weights, config }: DecoderModel, streams: CpuTensor): CpuTensor {
  const { base } = graph.ggml;
  const first = streamOf(graph, config, streams, 0);
  const size = recordMagnitude(graph, first);
  const sum = weights.altUp.reduce((total, { from }, i) => {
    const x = streamOf(graph, config, streams, i + 1);
    return base.add(graph.claim(), total, recordSized(graph, recordLinear(graph, { x, ...from }), size).handle);
  }, first.handle);
  return recordScale(graph, { x: { ...first, handle: sum }, factor: 1 / (weights.altUp.length + 1) });
}

/** All streams as the layer expects them, from all of them. */
export function recordPredicted(graph: CpuGraph, model: DecoderModel, index: number, streams: CpuTensor): CpuTensor {
  const { config } = model;
  const { prediction, ...weights } = altUpOf(model, index);
  const { hiddenSize, altUp } = config;
  const count = altUp?.numStreams ?? 1;
  const { base } = graph.ggml;
  const [numTokens = 0] = streams.shape;
  const modes = recordModes(graph, config, weights, streamOf(graph, config, streams, 0));
  const coefficients = recordLinear(graph, { x: modes, weight: prediction });
  const square = base.reshape3d(graph.claim(), coefficients.handle, count, count, numTokens);
  const stacked = base.reshape3d(graph.claim(), streams.handle, hiddenSize, count, numTokens);
  const turned = base.cont(graph.claim(), base.permute(graph.claim(), stacked, 1, 0, 2, 3));
  const mixed = base.mulMat(graph.claim(), turned, square);
  const sum = base.add(graph.claim(), mixed, stacked);
  return { ...streams, handle: base.reshape2d(graph.claim(), sum, hiddenSize * count, numTokens) };
}

/** All streams behind a layer, whose first one became `activated`. */
export function recordCorrected(
  graph: CpuGraph,
  model: DecoderModel,
  index: number,
  { predicted, activated }: { readonly predicted: CpuTensor; readonly activated: CpuTensor },
): CpuTensor {
  const { config } = model;
  const { correction, ...weights } = altUpOf(model, index);
  const { hiddenSize, altUp } = config;
  const count = altUp?.numStreams ?? 1;
  const { base } = graph.ggml;
  const [numTokens = 0] = predicted.shape;
  const modes = recordModes(graph, config, weights, activated);
  const { handle: raw } = recordLinear(graph, { x: modes, weight: correction });
  const shares = base.reshape3d(graph.claim(), base.scaleBias(graph.claim(), raw, 1, 1), 1, count, numTokens);
  const first = streamOf(graph, config, predicted, 0);
  const news = base.add(graph.claim(), activated.handle, base.scale(graph.claim(), first.handle, -1));
  const each = base.reshape3d(graph.claim(), news, hiddenSize, 1, numTokens);
  const spread = base.repeat4d(graph.claim(), each, hiddenSize, count, numTokens, 1);
  const stacked = base.reshape3d(graph.claim(), predicted.handle, hiddenSize, count, numTokens);
  const sum = base.add(graph.claim(), base.mul(graph.claim(), spread, shares), stacked);
  return { ...predicted, handle: base.reshape2d(graph.claim(), sum, hiddenSize * count, numTokens) };
}

/** Adds `x` to all streams but the first. */
export function recordToOthers(graph: CpuGraph, config: DecoderConfig, streams: CpuTensor, x: CpuTensor): CpuTensor {
  const { base } = graph.ggml;
  const [numTokens = 0, width = 0] = streams.shape;
  const { hiddenSize } = config;
  const count = width / hiddenSize;
  const rowBytes = width * 4;
  const others = base.view3d(
    ...([graph.claim(), streams.handle, hiddenSize, count - 1, numTokens] as const),
    ...([hiddenSize * 4, rowBytes, hiddenSize * 4] as const),
  );
  const each = base.reshape3d(graph.claim(), x.handle, hiddenSize, 1, numTokens);
  const sum = base.add(graph.claim(), base.cont(graph.claim(), others), each);
  const flat = base.reshape2d(graph.claim(), sum, hiddenSize * (count - 1), numTokens);
  const first = streamOf(graph, config, streams, 0).handle;
  return { ...streams, handle: base.concat(graph.claim(), first, flat, 0) };
}

/** Rows of one stream: [numTokens, hidden] */
export function streamOf(graph: CpuGraph, { hiddenSize }: DecoderConfig, streams: CpuTensor, index: number): CpuTensor {
  const { base } = graph.ggml;
  const [numTokens = 0, width = 0] = streams.shape;
  const view = base.view2d(graph.claim(), streams.handle, hiddenSize, numTokens, width * 4, index * hiddenSize * 4);
  return { handle: base.cont(graph.claim(), view), type: "f32", shape: [numTokens, hiddenSize] };
}

/** The branch beside attention, and its mean with the sum of both, in a magnitude that stays. */
export function recordLaurel(
  graph: CpuGraph,
  model: DecoderModel,
  index: number,
  { normed, residual }: { readonly normed: CpuTensor; readonly residual: CpuTensor },
): CpuTensor {
  const { base } = graph.ggml;
  const { laurelLeft, laurelRight, laurelNorm } = altUpOf(model, index);
  const low = recordLinear(graph, { x: normed, ...laurelLeft });
  const wide = recordLinear(graph, { x: low, ...laurelRight });
  const { epsilon } = model.config.norm;
  const branch = recordRmsNorm(graph, { x: wide, weight: laurelNorm.weight, epsilon });
  const beside = base.add(graph.claim(), branch.handle, normed.handle);
  const sum = base.add(graph.claim(), beside, residual.handle);
  return recordScale(graph, { x: { ...residual, handle: sum }, factor: Math.SQRT1_2 });
}

/** gelu(gate) * up, of the gates that many standard deviations above the mean of their row. `x` is [gate | up]. */
export function recordSparseGate(graph: CpuGraph, x: CpuTensor, cutoff: number): CpuTensor {
  const { base } = graph.ggml;
  const [numRows = 0, columns = 0] = x.shape;
  const width = columns / 2;
  const half = (column: number): Address =>
    base.cont(graph.claim(), base.view2d(graph.claim(), x.handle, width, numRows, columns * 4, column * 4));
  const gate = half(0);
  const mean = recordMean(graph, gate, width);
  const centred = base.add(graph.claim(), gate, base.scale(graph.claim(), mean, -1));
  const variance = recordMean(graph, base.mul(graph.claim(), centred, centred), width);
  const bound = base.scale(graph.claim(), base.sqrt(graph.claim(), variance), -cutoff);
  const kept = base.relu(graph.claim(), base.add(graph.claim(), centred, bound));
  const active = recordGelu(graph, { x: { handle: kept, type: "f32", shape: [numRows, width] }, form: "tanh" });
  return { ...active, handle: base.mul(graph.claim(), active.handle, half(width)) };
}

function recordMean(graph: CpuGraph, rows: Address, width: number): Address {
  return graph.ggml.base.scale(graph.claim(), graph.ggml.base.sumRows(graph.claim(), rows), 1 / width);
}

type ModeWeights = Pick<AltUpWeights<CpuTensor>, "routerNorm" | "router">;

/** [numTokens, streams] between -1 and 1 */
function recordModes(
  graph: CpuGraph,
  { hiddenSize, norm }: DecoderConfig,
  { routerNorm, router }: ModeWeights,
  x: CpuTensor,
): CpuTensor {
  const normed = recordRmsNorm(graph, { x, weight: routerNorm.weight, epsilon: norm.epsilon });
  const routed = recordLinear(graph, { x: recordScale(graph, { x: normed, factor: 1 / hiddenSize }), weight: router });
  return { ...routed, handle: graph.ggml.base.tanh(graph.claim(), routed.handle) };
}

/** The root of the mean square of each row: [1, numTokens] of ggml. */
function recordMagnitude(graph: CpuGraph, x: CpuTensor): Address {
  const { base } = graph.ggml;
  return base.sqrt(graph.claim(), recordMean(graph, base.mul(graph.claim(), x.handle, x.handle), x.shape[1] ?? 1));
}

function recordSized(graph: CpuGraph, x: CpuTensor, size: Address): CpuTensor {
  const { base } = graph.ggml;
  return { ...x, handle: base.mul(graph.claim(), base.rmsNorm(graph.claim(), x.handle, TINY), size) };
}

function altUpOf({ weights }: DecoderModel, index: number): AltUpWeights<CpuTensor> {
  const { altUp } = expectAt(weights.layers, index);
  if (altUp === undefined) throw new Error(`layer ${index} has no alternating updates`);
  return altUp;
}
