/**
 * The operations of a decoder's forward pass, as walk-decoder.ts asks a device for them. Work that a device fuses is one
 * operation; a device without the fusion does its parts. An implementation serves one pass over one batch.
 */
import type { LoraLinear } from "../../formats/lora/lora-adapter.ts";
import type { CrossWeights, ExpertWeights, Linear, Norm, XieluWeights } from "../weights/weight-plan.ts";

/** The operation that reads the result of a linear layer: it can take over a part of the layer's work. */
export type LinearReader = "rotateAndStore" | "addNorm" | "other";

/** `numRows` is that of the batch, and of its kept rows after `keepRows()`. */
export interface NormStep<Tensor, Rows> {
  /** Absent: the rows are read as they are. */
  readonly norm: Norm<Tensor> | undefined;
  /** The linear layer that reads the normalized rows; absent: one that takes them as they are. */
  readonly reader?: Linear<Tensor> | undefined;
  /** [numRows, hidden], added to the residual stream before. */
  readonly branch?: Rows | undefined;
  /** Norm of the branch. */
  readonly postNorm?: Norm<Tensor> | undefined;
}

/** The residual stream, and its rows after a norm. Both are [numRows, hidden]. */
export interface NormedRows<Rows> {
  readonly residual: Rows;
  readonly normed: Rows;
}

/** `Tensor` is a weight on the device; `Rows` are activations there. */
export interface DecoderOps<Tensor, Rows> {
  /** Rows of the batch whose logits are wanted. */
  readonly logitRows: "none" | "some" | "all";

  /** First rows of the residual stream: embeddings times their scale, replaced rows, learned positions, their norm. */
  embed(): Rows;

  /** Adds the branch times the residual scale, if any, and normalizes the sum. The residual stream passed in is consumed. */
  addNorm(residual: Rows, step: NormStep<Tensor, Rows>): NormedRows<Rows>;

  /** x . weight^T + bias, and the LoRA terms of rows with an adapter. `name` tells the linear layers of a layer apart. */
  linear(layer: number, name: LoraLinear, weights: Linear<Tensor>, x: Rows, reader: LinearReader): Rows;

  /** Norms of heads, RoPE, keys and values to the cache; in a recurrent layer all of it. Gives what `attend()` reads. */
  rotateAndStore(layer: number, qkv: Rows): Rows;

  /** The attention output: [numRows, numHeads * headDim]; in a recurrent layer the rows that it gets. */
  attend(layer: number, queries: Rows): Rows;

  /** `rotateAndStore()` in the last layer of a step without logits, where nothing reads the queries. */
  fillCache(layer: number, qkv: Rows): void;

  /** Keeps the rows whose logits are wanted, for the rest of the pass. Only they pass the end of the last layer. */
  keepRows(residual: Rows, attended: Rows): { readonly residual: Rows; readonly attended: Rows };

  /** The linear layer of gate and up projections, and the activation of the gate times the up rows, for `reader`. */
  gatedLinear(layer: number, weights: Linear<Tensor>, x: Rows, reader: Linear<Tensor>): Rows;

  /** The activation of an MLP without a gate, for `reader`. */
  activate(x: Rows, reader: Linear<Tensor>, xielu?: XieluWeights<Tensor>): Rows;

  /** A mixture of experts, with its routing and its shared expert. No adapter changes it. */
  experts(weights: ExpertWeights<Tensor>, x: Rows): Rows;

  /** Adds attention and MLP that read the same rows, then does as `addNorm()`. Devices add in different orders. */
  joinBranches(residual: Rows, attention: Rows, mlp: Rows, step: NormStep<Tensor, Rows>): NormedRows<Rows>;

  /** Present if a branch of the normalized rows stands beside attention: the residual stream with it. */
  readonly joinAttention?: ((layer: number, normed: Rows, residual: Rows) => Rows) | undefined;

  /** Present if experts stand beside the MLP: the branch that both give from the rows in front of the MLP's norm. */
  readonly besideMlp?: ((layer: number, residual: Rows, dense: Rows) => Rows) | undefined;

  /** Present if something follows the MLP: the residual stream behind the layer. */
  readonly endLayer?: ((layer: number, residual: Rows) => Rows) | undefined;

  /**
   * Present if one kernel computes all from the attention output of a layer to the next layer's queries, keys and
   * values, which it gives. The residual stream of `embed()` is updated in place.
   */
  readonly fusedLayer?: ((layer: number, attended: Rows) => Rows) | undefined;

  /** Present if the device computes attention to an encoder's rows: [numRows, numHeads * headDim] of normalized rows. */
  readonly attendCross?: ((layer: number, weights: CrossWeights<Tensor>, x: Rows) => Rows) | undefined;

  /** The output projection of that attention, beside it. No adapter changes it. */
  readonly projectCross?: ((weights: CrossWeights<Tensor>, attended: Rows) => Rows) | undefined;

  /** Present if the residual stream in front of layers is read, all of its rows. It stays as it is. */
  readonly observe?: ((layer: number, residual: Rows) => void) | undefined;

  /** Present if another device computes the layers after these: sends it the residual stream. */
  readonly handOn?: ((residual: Rows) => void) | undefined;
}
