/**
 * A low-rank adapter whatever it came as: for linear layers of a decoder, two small matrices whose product is added. And
 * what a decoder says of itself to those who read adapters. It knows no file and no device.
 */

/** A linear layer of a decoder layer. Projections that are stacked are one: an adapter of a part has its own columns. */
export type LoraLinear = "qkv" | "attentionOut" | "mlpIn" | "mlpOut";

export interface LoraTarget {
  readonly linear: LoraLinear;
  /** Of the linear layer's result, where the outputs begin. */
  readonly column: number;
  readonly inputs: number;
  readonly outputs: number;
}

/** What adapters of a decoder may change. */
export interface LoraTargets {
  readonly numLayers: number;
  /** Layers whose MLP is a choice of experts: `mlpIn` and `mlpOut` are not there. */
  readonly expertLayers: ReadonlySet<number>;
  /** Before the name of a layer, in the files of the model; any of them. */
  readonly prefixes: readonly string[];
  /** "#" stands for the number. */
  readonly layer: string;
  /** By the names of the modules within a layer. */
  readonly modules: ReadonlyMap<string, LoraTarget>;
  /** By the module ids of TensorRT-LLM. */
  readonly moduleIds: ReadonlyMap<number, LoraTarget>;
}

export interface LoraChange {
  readonly layer: number;
  readonly target: LoraTarget;
  readonly rank: number;
  readonly a: Float32Array; // [rank, inputs]
  /** Multiplied by the adapter's scale. */
  readonly b: Float32Array; // [outputs, rank]
}

export interface LoraAdapter {
  readonly changes: readonly LoraChange[];
}

/** Larger ranks are larger than the layers they change: an adapter of these is a mistake or an attack. */
export const MAX_LORA_RANK = 4096;
/** Modules of all layers of the largest models, several times. */
export const MAX_LORA_CHANGES = 65_536;

/** In memory, where all numbers are f32. */
export function loraBytes({ changes }: { readonly changes: readonly Omit<LoraChange, "a" | "b">[] }): number {
  let numbers = 0;
  for (const { rank, target } of changes) numbers += rank * (target.inputs + target.outputs);
  return numbers * Float32Array.BYTES_PER_ELEMENT;
}
