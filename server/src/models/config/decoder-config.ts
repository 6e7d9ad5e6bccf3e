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
      /** With the short factors, where it is another one. */
      readonly shortMagnitude?: number;
    }
  | {
      /** The first pairs of a head rotate at frequencies that count all of its pairs; the others stay (Gemma 4). */
      readonly kind: "proportional";
      readonly factor: number;
      readonly numPairs: number;
    };

export interface Rope {
  readonly theta: number;
  /** Elements of a head that are rotated, from its first on. */
  readonly numDims: number;
  /** Element 2i rotates with 2i + 1, as in GPT-J; absent: i with i + numDims / 2, as in GPT-NeoX. */
  readonly isInterleaved?: boolean;
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
  /** In place of attention the layer has a state (`DecoderConfig.recurrent`); absent: it attends. */
  readonly isRecurrent?: boolean;
  /** Heads of keys and values, where layers differ (Gemma 4); absent: those of the decoder. */
  readonly heads?: LayerHeads | undefined;
  /** The earlier layer whose keys and values it reads; absent: it has its own. */
  readonly kvSource?: number | undefined;
  /** Width of its dense MLP, where layers differ. */
  readonly mlpWidth?: number | undefined;
  /** Only gates this many standard deviations above the mean of their row are active (Gemma 3n); absent: all. */
  readonly gateCutoff?: number | undefined;
}

/**
 * Alternating updates (Gemma 3n): streams beside the residual stream, which each layer predicts from all and corrects by what it
 * computed from the first; and a low-rank branch beside attention.
 */
export interface AltUp {
  readonly numStreams: number;
  /** The corrected first stream is multiplied by a vector where it gates the inputs of the layer. */
  readonly hasOutputScale: boolean;
  readonly laurelRank: number;
}

export interface LayerHeads {
  readonly numKvHeads: number;
  /** The size of queries too. */
  readonly headDim: number;
}

/** Rows of each token for every layer, from a table and a projection of its embedding (Gemma 3n and 4). */
export interface PerLayerInputs {
  readonly width: number;
  readonly vocabSize: number;
  readonly tableScale: number;
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
  /** Absent: softmax over all experts, and the largest of them. */
  readonly routing?: ExpertRouting | undefined;
}

/** Differences of a router from softmax and top-k. */
export interface ExpertRouting {
  /** "sparse-mixer": softmax over the experts that come near the best of those that are left (Phi-3.5-MoE). */
  readonly scores: "softmax" | "sigmoid" | "sparse-mixer";
  /** How far an expert may be from the best, as a part of it; for "sparse-mixer". */
  readonly tolerance?: number;
  /** A bias of each expert is added to its score for the choice, not for its weight (DeepSeek-V3). */
  readonly hasCorrection: boolean;
  /** Experts come in groups, of which a token takes some; absent: one group. */
  readonly groups?: ExpertGroups | undefined;
  /** Multiplies the weights of the chosen. */
  readonly scale: number;
  /** Weights multiply what experts read, not what they give (Llama 4). */
  readonly scalesInputs?: boolean;
}

export interface ExpertGroups {
  readonly numGroups: number;
  readonly numChosen: number;
  /** A group is as good as the sum of this many of its best experts. */
  readonly numBest: number;
}

/** "relu2" is the square of "relu". "swiglu-clamped" is gpt-oss's: gate sigmoid(alpha gate) (up + 1), both clamped. "xielu": with parameters of layers. */
export type Activation = "silu" | "gelu-tanh" | "gelu-erf" | "relu" | "relu2" | "swiglu-clamped" | "xielu";

/** Norm of queries and keys. */
export interface HeadNorm {
  readonly kind: "rms" | "layer";
  /** Over each head, or over all queries of a row and over all its keys. */
  readonly scope: "head" | "row";
  readonly isAfterRope: boolean;
  /** Without weights, and only in layers that rotate (Llama 4). */
  readonly isBare?: boolean;
}

/**
 * Multi-head latent attention (DeepSeek-V2): the cache has one head, whose rows are a latent of all keys and values and one
 * rotated key. `numKvHeads` is 1 and `headDim` the size of such a row.
 */
export interface LatentAttention {
  /** Width of queries between their two projections; undefined: they have one. */
  readonly queryRank: number | undefined;
  /** Size of the latent. */
  readonly keyRank: number;
  /** Elements of a query that do not rotate, and of those that do. */
  readonly nopeDims: number;
  readonly ropeDims: number;
  readonly valueDims: number;
  /** For the norms of latents. */
  readonly epsilon: number;
}

/** Layers whose sequences have a state of constant size in place of keys and values. */
export type RecurrentLayer =
  | {
      /** Gated DeltaNet (Qwen3-Next): a matrix for each value head. */
      readonly kind: "delta-net";
      readonly numKeyHeads: number;
      readonly numValueHeads: number;
      /** Size of a head, of keys as of values. */
      readonly headDim: number;
      /** Tokens that the convolution in front reads. */
      readonly convWidth: number;
    }
  | {
      /** Mamba-2 (Granite 4). */
      readonly kind: "mamba-2";
      readonly numHeads: number;
      readonly headDim: number;
      readonly stateSize: number;
      readonly numGroups: number;
      readonly convWidth: number;
      readonly hasConvBias: boolean;
    }
  | {
      /** A convolution between two gates (LFM2). */
      readonly kind: "short-conv";
      readonly convWidth: number;
      readonly hasConvBias: boolean;
    };

/** Queries grow with the logarithm of their position (Llama 4, Ministral 3): 1 + beta ln(1 + floor(p / positions)). */
export interface AttentionTemperature {
  readonly beta: number;
  readonly positions: number;
  /** Added to positions; absent: 0. */
  readonly firstPosition?: number;
  /** Layers that rotate have none. */
  readonly isOnlyWithoutRope?: boolean;
}

export interface MlpConfig {
  readonly isGated: boolean;
  readonly activation: Activation;
  readonly intermediateSize: number;
  /** Present for "swiglu-clamped". */
  readonly clamp?: { readonly alpha: number; readonly limit: number } | undefined;
}

/** Scores get a number by the distance of key and query, from a table with a row for each bucket of distances (T5). */
export interface RelativeBias {
  readonly numBuckets: number;
  /** All distances from here on are in the last bucket. */
  readonly maxDistance: number;
}

/** Positions have rows of a table, which attention multiplies with contents (DeBERTa). */
export interface PositionBuckets {
  /** Rows on each side of the middle. */
  readonly span: number;
  /** Distances beyond half of the span share rows by their logarithm up to this; undefined: each has a row. */
  readonly maxDistance: number | undefined;
}

/** Positions that are computed: sines of a row's first half, cosines of its second (M2M100). */
export interface Sinusoids {
  /** Number of the first position. */
  readonly firstPosition: number;
}

/** Two convolutions of width 3, the second with a stride of 2, make rows of frames of sound (Whisper). */
export interface AudioStem {
  /** Numbers of a frame. */
  readonly numMels: number;
}

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
    readonly hasBias: boolean;
  };
  /**
   * Inputs of attention and MLP: the same rows, or the MLP reads the rows with attention added. "post-norm": each norm
   * replaces the rows themselves, as in BERT.
   */
  readonly residual: "sequential" | "parallel" | "post-norm";
  /** A token sees those before it; false: all of its text, and both sides of a window (encoders). */
  readonly isCausal: boolean;
  /** Rows of the table that tells the texts of a pair apart; 0: there is none. */
  readonly numSegments: number;
  /** Windows do not slide: a query sees the keys of its own chunk of so many positions (Llama 4). */
  readonly hasChunks: boolean;
  readonly headNorm: HeadNorm | undefined;
  readonly latent: LatentAttention | undefined;
  /** Present if layers are recurrent. */
  readonly recurrent: RecurrentLayer | undefined;
  /** Attention is multiplied with the sigmoid of a gate, which is projected beside the queries (Qwen3-Next). */
  readonly hasOutputGate: boolean;
  readonly attentionScale: number;
  readonly attentionSoftCap: number | undefined;
  /** Each head has a logit that takes its share of the softmax and adds nothing (gpt-oss). */
  readonly hasSinks: boolean;
  /** Scores fall with the distance of the key, by a slope for each head times this; undefined: they do not (ALiBi). */
  readonly alibiScale: number | undefined;
  readonly relativeBias: RelativeBias | undefined;
  readonly positionBuckets: PositionBuckets | undefined;
  readonly sinusoids: Sinusoids | undefined;
  /** Present in encoders of sound. */
  readonly audioStem: AudioStem | undefined;
  /** Each layer attends to the rows of an encoder too. */
  readonly hasCrossAttention: boolean;
  readonly temperature: AttentionTemperature | undefined;
  /** Values pass a norm of each head without weights. */
  readonly hasValueNorm: boolean;
  readonly perLayerInputs: PerLayerInputs | undefined;
  readonly altUp: AltUp | undefined;
  /** Dense layers have experts beside their MLP, which read the rows in front of its norm (Gemma 4). */
  readonly hasExpertsBeside: boolean;
  /** The rows behind each layer are multiplied by a number of the files. */
  readonly hasLayerScale: boolean;
  /** Queries, keys and values are clamped to this size; undefined: they are not. */
  readonly qkvClip: number | undefined;
  readonly mlp: MlpConfig;
  readonly experts: Experts | undefined;
  readonly biases: {
    readonly qkv: boolean;
    readonly oProj: boolean;
    readonly mlp: boolean;
    readonly output: boolean;
    /** Both projections of recurrent layers. */
    readonly recurrent: boolean;
  };
  readonly embeddingScale: number;
  /** Embeddings are normalized (BLOOM). */
  readonly hasEmbeddingNorm: boolean;
  /** Multiplies what attention and MLP add to the residual stream. */
  readonly residualScale: number;
  readonly logitScale: number;
  readonly logitSoftCap: number | undefined;
  /** The output projection is the embedding table. */
  readonly tieWordEmbeddings: boolean;

  readonly bosTokenId: number | undefined;
  readonly padTokenId: number | undefined;
  /** Prompt of a decoder behind an encoder, where a request brings none; empty for other models. */
  readonly startTokenIds: readonly number[];
  /** Generation stops at each of these. */
  readonly eosTokenIds: readonly number[];
}
