/**
 * A decoder as data: everything that its forward pass and the loading of its weights depend on. Complete and frozen;
 * which architecture it came from no longer matters.
 */
export type RopeScaling =
  | { readonly kind: "none" }
  | { readonly kind: "linear"; readonly factor: number }
  | {
      readonly kind: "llama3";
      readonly factor: number;
      readonly lowFrequencyFactor: number;
      readonly highFrequencyFactor: number;
      readonly originalMaxPositions: number;
    }
  | {
      readonly kind: "yarn";
      readonly factor: number;
      readonly betaFast: number;
      readonly betaSlow: number;
      readonly originalMaxPositions: number;
      readonly isTruncated: boolean;
      readonly magnitude: number;
    }
  | {
      readonly kind: "longrope";
      readonly shortFactors: readonly number[];
      readonly longFactors: readonly number[];
      readonly originalMaxPositions: number;
      readonly magnitude: number;
    };

export interface Rope {
  readonly theta: number;
  /** Elements of a head that are rotated, from its first on. */
  readonly numDims: number;
  readonly scaling: RopeScaling;
  /** Frequencies by time, row and column where tokens of images have three positions; absent: one position. */
  readonly sections?: readonly [number, number, number];
}

export interface DecoderLayer {
  /** How many keys a query sees, its own included; undefined for all. */
  readonly window: number | undefined;
  /** Index into the ropes of the decoder; undefined when positions enter with the embeddings. */
  readonly rope: number | undefined;
  readonly mlp: "dense" | "experts";
}

export interface Experts {
  readonly numExperts: number;
  /** Experts that a token takes. */
  readonly numChosen: number;
  readonly intermediateSize: number;
  /** The weights of the chosen are divided by their sum. */
  readonly isRenormalized: boolean;
  /** Width of an expert that every token takes, times a sigmoid; 0 when there is none. */
  readonly sharedIntermediateSize: number;
}

export type Activation = "silu" | "gelu-tanh" | "gelu-erf";

export interface DecoderConfig {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly numLayers: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly maxPositions: number;
  readonly layers: readonly DecoderLayer[];
  readonly ropes: readonly Rope[];

  readonly norm: {
    readonly kind: "rms" | "layer";
    readonly epsilon: number;
    /** The files hold weights less this. */
    readonly weightOffset: 0 | 1;
  };
  /** Inputs of attention and MLP: the same rows, or the MLP reads the rows with attention added. */
  readonly residual: "sequential" | "parallel";
  /** Norm of each query and key head before RoPE. */
  readonly hasHeadNorm: boolean;
  readonly attentionScale: number;
  readonly attentionSoftCap: number | undefined;
  readonly mlp: { readonly isGated: boolean; readonly activation: Activation; readonly intermediateSize: number };
  readonly experts: Experts | undefined;
  readonly biases: {
    readonly qkv: boolean;
    readonly oProj: boolean;
    readonly mlp: boolean;
    readonly output: boolean;
  };
  readonly embeddingScale: number;
  readonly logitSoftCap: number | undefined;
  /** The output projection is the embedding table. */
  readonly tieWordEmbeddings: boolean;

  readonly bosTokenId: number | undefined;
  readonly padTokenId: number | undefined;
  /** Generation stops at each of these. */
  readonly eosTokenIds: readonly number[];
}
