/**
 * Device tensors of a decoder as a tree, and for each of them which tensors of the files make it up. Types only: which
 * tensors there are is weight-plan.ts's.
 */
import type { CpuShape } from "../../device/cpu/cpu-tensor.ts";

/**
 * Kind of a tensor, which decides its type: some stay exact, and a vocabulary tolerates fewer bits less well than a
 * matrix.
 */
export type WeightKind = "exact" | "matrix" | "vocabulary";

/** One device tensor and the file tensors whose elements follow each other in it. */
export interface WeightPlan {
  readonly kind: WeightKind;
  /** Only multiplied with: its rows are never looked up, nor are its elements. */
  readonly isGemmOperand: boolean;
  readonly shape: CpuShape;
  readonly sources: readonly WeightSource[];
}

export interface WeightSource {
  readonly name: string;
  /** As the file has it. */
  readonly shape: readonly number[];
  /** Conversion of the elements while they are loaded. */
  readonly change: "none" | "transpose" | "add-one" | "unit-rows" | "transpose-runs" | "minus-exp";
  /** Runs of rows that are taken, in this order; absent: all. Elements of a vector are rows. */
  readonly rows?: readonly RowRun[] | undefined;
}

export interface RowRun {
  readonly first: number;
  readonly count: number;
}

export interface Linear<T> {
  readonly weight: T; // [outputs, inputs]
  readonly bias: T | undefined; // [outputs]
}

export interface Norm<T> {
  readonly weight: T; // [hidden]
  readonly bias: T | undefined; // [hidden]
}

export interface Mlp<T> {
  /** [2 * intermediate, hidden] gate rows, then up rows; [intermediate, hidden] without a gate. */
  readonly in: Linear<T>;
  readonly out: Linear<T>; // [hidden, intermediate]
  readonly xielu?: XieluWeights<T> | undefined;
}

/** Parameters of xIELU, as files have them: of both sides before softplus. */
export interface XieluWeights<T> {
  readonly positive: T; // [1]
  readonly negative: T; // [1]
  readonly linear: T; // [1]
}

export interface ExpertWeights<T> {
  readonly router: T; // [experts, hidden]
  readonly routerBias: T | undefined; // [experts]
  readonly correction: T | undefined; // [experts]
  readonly in: T; // [experts, 2 * intermediate, hidden]
  readonly inBias: T | undefined; // [experts, 2 * intermediate]
  readonly out: T; // [experts, hidden, intermediate]
  readonly outBias: T | undefined; // [experts, hidden]
  readonly shared: { readonly mlp: Mlp<T>; readonly gate: T | undefined } | undefined; // gate: [1, hidden]
}

/** Matrices of latent attention. */
export interface LatentWeights<T> {
  readonly queryNorm: T | undefined; // [queryRank]
  readonly queryUp: T | undefined; // [heads * (nopeDims + ropeDims), queryRank]
  readonly keyNorm: T; // [keyRank]
  readonly keyUp: T; // [heads, keyRank, nopeDims]
  readonly valueUp: T; // [heads, valueDims, keyRank]
}

/** Tensors of a layer with a state, beside its projections. */
export interface RecurrentWeights<T> {
  readonly conv: T; // [channels, width]
  readonly convBias: T | undefined; // [channels]
  readonly timeBias: T | undefined; // [heads]
  /** Minus the exponential of what the files hold. */
  readonly decay: T | undefined; // [heads]
  readonly skip: T | undefined; // [heads]
  /** For each head in Gated DeltaNet, for the row in Mamba-2. */
  readonly norm: T | undefined; // [headDim] or [outputs]
}

/** Attention to the rows of an encoder. */
export interface CrossWeights<T> {
  readonly norm: Norm<T>;
  readonly query: Linear<T>; // [heads * headDim, hidden]
  readonly keyValue: Linear<T>; // [2 * kvHeads * headDim, hidden] key rows, then value rows
  readonly out: Linear<T>; // [hidden, heads * headDim]
}

/** Experts beside a dense MLP. */
export interface BesideWeights<T> {
  readonly experts: ExpertWeights<T>;
  readonly routerNorm: Norm<T>;
  readonly norm: Norm<T>;
  /** Behind the MLP, and behind the experts. */
  readonly denseNorm: Norm<T>;
  readonly outNorm: Norm<T>;
  /** Multiplies the shares of experts. */
  readonly outScale: T; // [experts]
}

/** Projections by which a layer reads its rows of `PerLayerInputs`. */
export interface LayerInputWeights<T> {
  readonly gate: Linear<T>; // [width, hidden]
  readonly out: Linear<T>; // [hidden, width]
  readonly norm: Norm<T>;
}

/** Alternating updates in a layer, with the low-rank branch beside its attention. */
export interface AltUpWeights<T> {
  readonly routerNorm: Norm<T>;
  readonly router: T; // [streams, hidden]
  readonly prediction: T; // [streams * streams, streams]
  readonly correction: T; // [streams, streams]
  readonly outputScale: T | undefined; // [hidden]
  readonly laurelLeft: Linear<T>; // [rank, hidden]
  readonly laurelRight: Linear<T>; // [hidden, rank]
  readonly laurelNorm: Norm<T>;
}

/** Table and projection that make `PerLayerInputs`. */
export interface PerLayerWeights<T> {
  readonly table: T; // [vocab, layers * width]
  readonly projection: Linear<T>; // [layers * width, hidden]
  readonly norm: T; // [width]
}

export interface LayerWeights<T> {
  readonly attentionNorm: Norm<T> | undefined;
  /** [(heads + 2 * kvHeads) * headDim, hidden], and behind them the rows of output gates; of a recurrent layer all inputs. */
  readonly qkv: Linear<T>;
  /** A row per query head, then per key head. */
  readonly headNorms: T | undefined; // [heads + kvHeads, headDim]
  readonly sinks: T | undefined; // [heads]
  readonly latent: LatentWeights<T> | undefined;
  readonly recurrent: RecurrentWeights<T> | undefined;
  readonly relativeBias: T | undefined; // [buckets, heads]
  readonly cross: CrossWeights<T> | undefined;
  readonly oProj: Linear<T>; // [hidden, heads * headDim]
  readonly attentionPostNorm: Norm<T> | undefined;
  readonly mlpNorm: Norm<T> | undefined;
  readonly mlp: Mlp<T> | ExpertWeights<T>;
  readonly mlpPostNorm: Norm<T> | undefined;
  readonly beside: BesideWeights<T> | undefined;
  readonly perLayer: LayerInputWeights<T> | undefined;
  readonly scale: T | undefined; // [1]
  readonly altUp: AltUpWeights<T> | undefined;
}

/** Convolutions as matrices over the three frames that each of their rows reads: [outputs, 3 * inputs]. */
export interface AudioStemWeights<T> {
  readonly first: Linear<T>;
  readonly second: Linear<T>;
}

/** An encoder in front of a decoder, which has its embedding. */
export interface EncoderWeights<T> {
  readonly embeddingNorm: Norm<T> | undefined;
  readonly positions: T | undefined;
  readonly audioStem: AudioStemWeights<T> | undefined;
  readonly layers: readonly LayerWeights<T>[];
  readonly norm: Norm<T>;
}

export interface ModelWeights<T> {
  readonly embedding: T; // [vocab, hidden]
  readonly embeddingNorm: Norm<T> | undefined;
  readonly positions: T | undefined; // [maxPositions, hidden]
  readonly segments: T | undefined; // [segments, hidden]
  readonly relativeTable: { readonly table: T; readonly norm: Norm<T> | undefined } | undefined; // [2 * span, hidden]
  readonly perLayer: PerLayerWeights<T> | undefined;
  /** From the first stream to each other one, and back. */
  readonly altUp: readonly { readonly to: Linear<T>; readonly from: Linear<T> }[];
  readonly layers: readonly LayerWeights<T>[];
  readonly norm: Norm<T>;
  /** Its weight is the embedding itself when the two are tied. */
  readonly output: Linear<T>; // [vocab, hidden]
  readonly encoder: EncoderWeights<T> | undefined;
}
