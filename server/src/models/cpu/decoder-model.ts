/** A decoder on the CPU as its forward pass sees it: weights, caches, adapters, and the batch of a step. */
import type { AttentionSequence } from "../../../kernels/attention/attention-span.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import type { AdapterWeights } from "./lora.ts";
import type { DecoderWeights } from "./weights.ts";

export interface DecoderSequence extends AttentionSequence {
  /** Undefined: none. */
  readonly adapter?: number | undefined;
  /** Row of its states, for models with recurrent layers. */
  readonly state?: number | undefined;
  /** Keys and values of its encoder by layer, for models that attend to one. */
  readonly memory?: readonly LayerCache[] | undefined;
}

/** A batch whose indices have all been checked. */
export interface DecoderBatch {
  readonly tokenIds: Int32Array; // [numTokens]
  readonly positions: Int32Array; // [numTokens]
  /** [3, numTokens] time, row and column of each token, for ropes with sections; absent: its position in all three. */
  readonly axes?: Int32Array;
  readonly slots: Int32Array; // [numTokens]
  readonly sequences: readonly DecoderSequence[];
  readonly logitRows: Int32Array;
  /** [numTokens] rows of the table of segments; absent: the first. */
  readonly segments?: Int32Array | undefined;
  /** [2 * numTokens - 1 or 2 * numTokens, numMels] frames of sound, for encoders of it: their tokens count rows alone. */
  readonly frames?: Float32Array | undefined;
  readonly embeddings?: { readonly rows: Int32Array; readonly values: Float32Array };
  readonly blockSize: number;
}

export interface DecoderModel {
  readonly config: DecoderConfig;
  readonly weights: DecoderWeights;
  /** By which each rope multiplies what it has rotated. */
  readonly ropeMagnitudes: readonly number[];
  /** By layer; undefined for recurrent ones. */
  readonly caches: readonly (LayerCache | undefined)[];
  /** By layer; undefined for those that attend. */
  readonly states: readonly (LayerState | undefined)[];
  /** By the numbers that sequences name. */
  readonly adapters: ReadonlyMap<number, AdapterWeights>;
}

/** States of all sequences in one layer. */
export interface LayerState {
  /** Inputs of the convolution before the next token. */
  readonly conv: CpuTensor; // [numSlots, channels * (width - 1)]
  readonly rest: CpuTensor | undefined; // [numSlots, numbers]
}

/** Keys and values of one layer. */
export interface LayerCache {
  readonly keys: CpuTensor; // [numSlots, kvHeads * headDim]
  readonly values: CpuTensor; // [numSlots, kvHeads * headDim]
}
