/** Linear layers that adapters may change, by the names of the files and by TensorRT-LLM's module ids. Pure. */

import type { WeightNames } from "../../formats/hf/weight-names.ts";
import type { LoraLinear, LoraTarget, LoraTargets } from "../../formats/lora/lora-adapter.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";

export function loraTargets(config: DecoderConfig, names: WeightNames): LoraTargets {
  const { hiddenSize, numHeads, numKvHeads, headDim, mlp } = config;
  const [queries, keys] = [numHeads * headDim, numKvHeads * headDim];
  const width = mlp.intermediateSize;
  const qkv = partsOf("qkv", hiddenSize, [queries, keys, keys]);
  const mlpIn = partsOf("mlpIn", hiddenSize, mlp.isGated ? [width, width] : [width]);
  const oProj: LoraTarget = { linear: "oProj", column: 0, inputs: queries, outputs: hiddenSize };
  const mlpOut: LoraTarget = { linear: "mlpOut", column: 0, inputs: width, outputs: hiddenSize };
  const { layers } = config;
  const hasEqualHeads = layers.every(({ heads, kvSource }) => heads === undefined && kvSource === undefined);
  const hasEqualMlps = layers.every((layer) => layer.mlpWidth === undefined);
  const isAttention = config.latent === undefined && hasEqualHeads;
  const isPlain = isAttention && names.hasGroupedQkv !== true;
  const modules = new Map([
    // Rows of other orders, matrices between others, and matrices whose sizes differ between layers stay as they are.
    ...(isPlain ? byName(names.qkv, qkv) : []),
    ...(isAttention ? [[names.oProj, oProj] as const] : []),
    ...(hasEqualMlps ? [...byName(names.mlpIn, mlpIn), [names.mlpOut, mlpOut] as const] : []),
  ]);
  const [query, key, value] = qkv.parts;
  const [gate, up] = mlpIn.parts;
  // Module 5 is the branch that is activated, module 7 the other one.
  const ids = [qkv.whole, query, key, value, oProj, gate, mlpOut, up];
  return {
    numLayers: config.numLayers,
    expertLayers: new Set(config.layers.flatMap((layer, i) => (layer.mlp === "experts" ? [i] : []))),
    prefixes: names.prefixes,
    layer: names.layer,
    modules,
    moduleIds: new Map(ids.flatMap((target, id) => (target === undefined ? [] : [[id, target] as const]))),
  };
}

interface Parts {
  readonly whole: LoraTarget;
  readonly parts: readonly LoraTarget[];
}

function partsOf(linear: LoraLinear, inputs: number, widths: readonly number[]): Parts {
  let column = 0;
  const parts = widths.map((outputs) => {
    column += outputs;
    return { linear, column: column - outputs, inputs, outputs };
  });
  return { whole: { linear, column: 0, inputs, outputs: column }, parts };
}

/** A module for each part, or one that is all of them. */
function byName(names: readonly string[], { whole, parts }: Parts): (readonly [string, LoraTarget])[] {
  return names.map((name, i) => [name, names.length === parts.length ? (parts[i] ?? whole) : whole] as const);
}
