/** Which tensors of the files make up a layer with a state: its projections, its convolution, its decays. Pure. */
import type { RecurrentNames } from "../../formats/hf/weight-names.ts";
import type { RecurrentLayer } from "../config/decoder-config.ts";
import { recurrentShape } from "../config/recurrent-shape.ts";
import { type ModulePlans, source } from "./module-plans.ts";
import type { LayerWeights, Linear, RowRun, WeightSource } from "./weight-tree.ts";

type RecurrentPart =
  | "attentionNorm"
  | "qkv"
  | "headNorms"
  | "sinks"
  | "latent"
  | "recurrent"
  | "relativeBias"
  | "cross"
  | "oProj";

/** The part of the layer in front of its MLP. `at`: the prefix of its names. */
export function describeRecurrentLayer<T>(plans: ModulePlans<T>, at: string): Pick<LayerWeights<T>, RecurrentPart> {
  const { config, names } = plans;
  const { recurrent: layer, hiddenSize, biases } = config;
  const own = names.recurrent;
  if (layer === undefined || own === undefined)
    throw new Error("a recurrent layer that its architecture does not describe");
  const { convChannels, numHeads, outputs } = recurrentShape(layer, hiddenSize);
  const perHead = (name: string | undefined, isDecay = false): T | undefined =>
    name === undefined ? undefined : plans.named(at + name, [numHeads], [numHeads], isDecay ? "minus-exp" : "none");
  const normSize = layer.kind === "delta-net" ? layer.headDim : outputs;
  const hasConvBias = layer.kind !== "delta-net" && layer.hasConvBias;
  const conv = [convChannels, layer.convWidth] as const;
  return {
    attentionNorm: names.attentionNorm === undefined ? undefined : plans.norm(at + names.attentionNorm),
    qkv: inputs(plans, at, own, layer),
    headNorms: undefined,
    sinks: undefined,
    latent: undefined,
    relativeBias: undefined,
    cross: undefined,
    recurrent: {
      conv: plans.named(`${at}${own.conv}.weight`, conv, [convChannels, 1, layer.convWidth]),
      convBias: hasConvBias ? plans.vector([[`${at}${own.conv}.bias`, convChannels]]) : undefined,
      timeBias: perHead(own.timeBias),
      decay: perHead(own.decay, true),
      skip: perHead(own.skip),
      norm: own.norm === undefined ? undefined : plans.vector([[`${at}${own.norm}.weight`, normSize]]),
    },
    oProj: plans.linear([at + own.out], [hiddenSize], outputs, biases.recurrent),
  };
}

function inputs<T>(plans: ModulePlans<T>, at: string, names: RecurrentNames, layer: RecurrentLayer): Linear<T> {
  const { hiddenSize, biases } = plans.config;
  const { inputs: count } = recurrentShape(layer, hiddenSize);
  const modules = names.in.map((name) => at + name);
  if (layer.kind !== "delta-net") return plans.linear(modules, [count], hiddenSize, biases.recurrent);
  const { numKeyHeads, numValueHeads, headDim } = layer;
  const [keys, values] = [numKeyHeads * headDim, numValueHeads * headDim];
  if (names.isGrouped !== true) {
    return plans.linear(modules, [2 * keys + values, values, numValueHeads, numValueHeads], hiddenSize, false);
  }
  return plans.rowsOf([count, hiddenSize], groupedSources(modules, layer, hiddenSize));
}

/** Qwen3-Next's rows: for each key head its query, its key, and the values and gates, or betas and decays, that read it. */
function groupedSources(
  [wide = "", narrow = ""]: readonly string[],
  { numKeyHeads, numValueHeads, headDim }: Extract<RecurrentLayer, { kind: "delta-net" }>,
  hiddenSize: number,
): readonly WeightSource[] {
  const perKey = numValueHeads / numKeyHeads;
  const runs = (group: number, first: number, count: number): readonly RowRun[] =>
    Array.from({ length: numKeyHeads }, (_, i) => ({ first: i * group + first, count }));
  const values = perKey * headDim;
  const group = 2 * headDim + 2 * values;
  const first = source(`${wide}.weight`, [numKeyHeads * group, hiddenSize]);
  const second = source(`${narrow}.weight`, [2 * numValueHeads, hiddenSize]);
  return [
    { ...first, rows: runs(group, 0, headDim) },
    { ...first, rows: runs(group, headDim, headDim) },
    { ...first, rows: runs(group, 2 * headDim, values) },
    { ...first, rows: runs(group, 2 * headDim + values, values) },
    { ...second, rows: runs(2 * perKey, 0, perKey) },
    { ...second, rows: runs(2 * perKey, perKey, perKey) },
  ];
}
