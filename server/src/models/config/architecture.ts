/**
 * The difference between architectures: a row of the table in architectures.ts. It holds switches, and the names of
 * formats/weight-names.ts. Their effect is in decoder-config.ts, weight-plan.ts and walk-decoder.ts.
 */
import type { HfFields } from "../../formats/hf/config-fields.ts";
import type { WeightNames } from "../../formats/hf/weight-names.ts";
import type {
  Activation,
  AltUp,
  AttentionTemperature,
  AudioStem,
  DecoderConfig,
  DecoderLayer,
  ExpertRouting,
  HeadNorm,
  LatentAttention,
  MlpConfig,
  PerLayerInputs,
  PositionBuckets,
  RecurrentLayer,
  RelativeBias,
} from "./decoder-config.ts";

/** Which layers see a window only, where config.json does not list them. */
export type WindowRule =
  /** None, whatever config.json says. */
  | { readonly kind: "none" }
  /** The layers that the row says, of whatever kinds config.json lists. */
  | { readonly kind: "layers"; readonly has: (layer: number) => boolean }
  /** All, when a window is set. */
  | { readonly kind: "all" }
  /** All but every nth, counted from `offset` layers later; the field may say another n. */
  | { readonly kind: "all-but-every"; readonly n: number; readonly field?: string; readonly offset?: number }
  /** The layers from a given one on, when a field switches it on. */
  | { readonly kind: "from-layer"; readonly isOnField: string; readonly field: string };

/** Factors of a row that are not 1. */
export interface Scales {
  readonly embedding?: number;
  /** Factor of the products of queries and keys; absent: one over the root of the head's size. */
  readonly attention?: number;
  readonly residual?: number;
  readonly logits?: number;
}

/** A bias that is there, is not, or is as a field of config.json says. */
export type BiasRule = boolean | { readonly field: string };

export interface Architecture {
  /** As config.json has it in `architectures`. */
  readonly className: string;
  /** The object of config.json that describes the decoder, where it is not the whole. */
  readonly section?: string;
  /** Older files describe the decoder beside everything else: without such an object the whole is taken. */
  readonly isSectionOptional?: boolean;
  /**
   * The `model_type` values that this part may have, the first as default, and the keys that each omits. Absent: any
   * value.
   */
  readonly sectionTypes?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Names of fields where they are not those of Llama. */
  readonly aliases?: Readonly<Record<string, string>>;
  /** Values of keys that files omit, by the names that they would have there. */
  readonly defaults?: Readonly<Record<string, unknown>>;
  /** Values of fields, if set, without which the model is another one than we compute. */
  readonly requires?: Readonly<Record<string, unknown>>;
  /** Differences of files that have a field which newer ones do not. */
  readonly older?: { readonly field: string; readonly row: Partial<Architecture> };
  readonly norm: "rms" | "rms-plus-one" | "layer" | "layer-plus-one";
  /** Absent: layer norms have a bias. */
  readonly hasNormBias?: boolean;
  readonly residual: DecoderConfig["residual"];
  /** Absent: a token sees those before it. */
  readonly isCausal?: boolean;
  readonly hasChunks?: boolean;
  /** Positions of the file that no token has are counted in its number of positions. */
  readonly hasUnusedPositions?: boolean;
  readonly isGated: boolean;
  /** Fields that say the width of the MLP and the number of positions, where they are not the usual ones. */
  readonly intermediateField?: string;
  readonly intermediateSize?: number;
  readonly maxPositionsField?: string;
  /** Width of the MLP over that of the rows, where the field is not set. */
  readonly intermediateRatio?: number;
  /** For architectures whose field is known to differ from the trained activation. */
  readonly activation?: Activation;
  readonly clamp?: MlpConfig["clamp"];
  readonly positions: "rope" | "learned" | "alibi" | "sinusoidal" | "none";
  /** Positions that the model is served with, where no field bounds them. */
  readonly maxPositions?: number;
  /** Number of the first position, for those that are computed. */
  readonly firstSinusoid?: number;
  readonly relativeBias?: RelativeBias;
  readonly positionBuckets?: PositionBuckets;
  readonly audioStem?: AudioStem;
  /** The row of the encoder whose rows each layer attends to. */
  readonly encoder?: Architecture;
  readonly isRopeInterleaved?: boolean;
  /** Layers whose queries and keys do not rotate. */
  readonly withoutRope?: (layer: number, window: number | undefined) => boolean;
  /** Elements of a head that rotate, where no share is given. */
  readonly rotaryDims?: number;
  readonly ropeTheta?: number;
  /** Given where another field, or none, says it. */
  readonly numKvHeads?: number;
  /** Rotary positions of layers with a window are never scaled. */
  readonly hasPlainLocalRope?: boolean;
  /** Sequences end at the length of the training where LongRoPE has other factors beyond it. */
  readonly isShortRopeOnly?: boolean;
  /** Multiplies the slopes of ALiBi. */
  readonly alibiScale?: number;
  readonly temperature?: AttentionTemperature | undefined;
  readonly qkvClip?: number | undefined;
  readonly hasSinks?: boolean;
  /** Size of the heads of layers without a window, where it is another one. */
  readonly fullHeadDim?: number;
  /** Parts in which layers differ. */
  readonly layerDetails?: (layer: number) => Pick<DecoderLayer, "heads" | "kvSource" | "mlpWidth" | "gateCutoff">;
  readonly hasValueNorm?: boolean;
  readonly perLayerInputs?: PerLayerInputs | undefined;
  readonly altUp?: AltUp;
  readonly hasLayerScale?: boolean;
  readonly hasExpertsBeside?: boolean;
  readonly headNorm?: HeadNorm | undefined;
  readonly latent?: LatentAttention;
  readonly recurrent?: RecurrentLayer | undefined;
  /** Layers that have a state in place of attention. */
  readonly isRecurrent?: (layer: number) => boolean;
  readonly hasRecurrentBias?: boolean;
  readonly hasOutputGate?: boolean;
  readonly scales?: Scales;
  readonly routing?: ExpertRouting;
  /** Width of the shared experts together, where the field is another than Qwen2-MoE's. */
  readonly sharedExpertsSize?: number;
  /** Layers with experts, where the row says it. */
  readonly isExpertLayer?: (layer: number) => boolean;
  /** Layers in front that have no experts. */
  readonly numDenseLayers?: number;
  /** Fields that change nothing that is computed here; others than these, and those that are read, are refused. */
  readonly noEffect?: readonly string[];
  /** Reads what depends on the config. `fields` has the row's aliases and defaults. */
  readonly variant?: (fields: HfFields) => Partial<Architecture>;
  readonly scalesEmbedding: boolean;
  readonly biases: Readonly<Record<"qkv" | "oProj" | "mlp" | "output", BiasRule>>;
  readonly window: WindowRule;
  readonly weights: WeightNames;
}
