/** Which tensors make up the inputs of layers (Gemma 3n and 4) and alternating updates (Gemma 3n). Pure. */
import type { ModulePlans } from "./module-plans.ts";
import type { AltUpWeights, LayerInputWeights, ModelWeights, PerLayerWeights } from "./weight-tree.ts";

export function describePerLayer<T>(plans: ModulePlans<T>, prefix: string): PerLayerWeights<T> | undefined {
  const { config, names } = plans;
  const { perLayerInputs: inputs, numLayers, hiddenSize } = config;
  const { perLayer } = names;
  if (inputs === undefined || perLayer === undefined) return undefined;
  const width = numLayers * inputs.width;
  return {
    table: plans.wideTable(prefix + perLayer.table, inputs.vocabSize, width),
    projection: plans.linear([prefix + perLayer.projection], [width], hiddenSize, false),
    norm: plans.vector([[`${prefix}${perLayer.norm}.weight`, inputs.width]]),
  };
}

export function describeLayerInputs<T>(plans: ModulePlans<T>, at: string): LayerInputWeights<T> | undefined {
  const { config, names } = plans;
  const { perLayerInputs: inputs, hiddenSize } = config;
  const { perLayer } = names;
  if (inputs === undefined || perLayer === undefined) return undefined;
  return {
    gate: plans.linear([at + perLayer.gate], [inputs.width], hiddenSize, false),
    out: plans.linear([at + perLayer.out], [hiddenSize], inputs.width, false),
    norm: plans.norm(at + perLayer.outNorm),
  };
}

export function describeStreams<T>(plans: ModulePlans<T>, prefix: string): ModelWeights<T>["altUp"] {
  const { config, names } = plans;
  const { altUp, hiddenSize } = config;
  const own = names.altUp;
  if (altUp === undefined || own === undefined) return [];
  const module = (name: string, i: number) =>
    plans.linear([prefix + name.replace("#", String(i))], [hiddenSize], hiddenSize, false);
  return Array.from({ length: altUp.numStreams - 1 }, (_, i) => ({
    to: module(own.projection, i),
    from: module(own.unprojection, i),
  }));
}

export function describeAltUp<T>(plans: ModulePlans<T>, at: string): AltUpWeights<T> | undefined {
  const { config, names } = plans;
  const { altUp, hiddenSize } = config;
  const own = names.altUp;
  if (altUp === undefined || own === undefined) return undefined;
  const { numStreams: count, laurelRank: rank } = altUp;
  const [left, right, norm] = own.laurel;
  return {
    routerNorm: plans.norm(at + own.routerNorm),
    router: plans.matrix([at + own.router], [count], hiddenSize, "exact"),
    prediction: plans.matrix([at + own.prediction], [count * count], count, "exact"),
    correction: plans.matrix([at + own.correction], [count], count, "exact"),
    outputScale: altUp.hasOutputScale ? plans.named(at + own.outputScale, [hiddenSize]) : undefined,
    laurelLeft: plans.linear([at + left], [rank], hiddenSize, false),
    laurelRight: plans.linear([at + right], [hiddenSize], rank, false),
    laurelNorm: plans.norm(at + norm),
  };
}
