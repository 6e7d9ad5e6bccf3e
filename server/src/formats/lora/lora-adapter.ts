/**
 * A LoRA adapter (Hu et al. 2021), independent of its file format: two low-rank matrices per linear layer. Also the
 * description of a decoder that adapter readers need. It knows no file and no device.
 */

/**
 * A linear layer of a decoder layer. Stacked projections are one layer; an adapter of one part has its own output
 * columns.
 */
export type LoraLinear = "qkv" | "oProj" | "mlpIn" | "mlpOut";

export interface LoraTarget {
  readonly linear: LoraLinear;
  /** First output of the linear layer that the adapter changes. */
  readonly column: number;
  readonly inputs: number;
  readonly outputs: number;
}

/** The linear layers of a decoder that adapters may change. */
export interface LoraTargets {
  readonly numLayers: number;
  /** Layers with mixture-of-experts MLPs, which have no `mlpIn` and `mlpOut`. */
  readonly expertLayers: ReadonlySet<number>;
  /** Possible prefixes of a layer name in the model's files. */
  readonly prefixes: readonly string[];
  /** "#" stands for the layer number. */
  readonly layer: string;
  /** By module name within a layer. */
  readonly modules: ReadonlyMap<string, LoraTarget>;
  /** By TensorRT-LLM module id. */
  readonly moduleIds: ReadonlyMap<number, LoraTarget>;
}

export interface LoraChange {
  readonly layer: number;
  readonly target: LoraTarget;
  readonly rank: number;
  readonly a: Float32Array; // [rank, inputs]
  /** [outputs, rank], multiplied by the adapter's scale. */
  readonly b: Float32Array;
}

export interface LoraAdapter {
  readonly changes: readonly LoraChange[];
  /** In a format that the device reads by itself; then `changes` is empty. */
  readonly file?: LoraFile | undefined;
}

export interface LoraFile {
  readonly path: string;
  readonly numBytes: number;
  /** Tells it from other files, and from later ones at the same path. */
  readonly stamp: string;
}

/** A larger rank exceeds the layers it changes: a mistake or an attack. */
export const MAX_LORA_RANK = 4096;
/** All modules of all layers of the largest models, several times. */
export const MAX_LORA_CHANGES = 65_536;

/** Bytes in memory, where all values are FP32. */
export function loraBytes({ changes }: { readonly changes: readonly Omit<LoraChange, "a" | "b">[] }): number {
  let numbers = 0;
  for (const { rank, target } of changes) numbers += rank * (target.inputs + target.outputs);
  return numbers * Float32Array.BYTES_PER_ELEMENT;
}
