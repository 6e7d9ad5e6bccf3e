/**
 * The difference between architectures: a row of the table in architectures.ts. It holds switches, and the names of
 * formats/weight-names.ts. Their effect is in decoder-config.ts, weight-plan.ts and walk-decoder.ts.
 */
import type { WeightNames } from "../../formats/hf/weight-names.ts";

/** Which layers see a window only, where config.json does not list them. */
export type WindowRule =
  /** All, when a window is set. */
  | { readonly kind: "all" }
  /** All but every nth; the field may say another n. */
  | { readonly kind: "all-but-every"; readonly n: number; readonly field?: string }
  /** The layers from a given one on, when a field switches it on. */
  | { readonly kind: "from-layer"; readonly isOnField: string; readonly field: string };

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
  readonly norm: "rms" | "rms-plus-one" | "layer";
  readonly residual: "sequential" | "parallel";
  readonly isGated: boolean;
  /** Width of the MLP over that of the rows, where the field is not set. */
  readonly intermediateRatio?: number;
  /** For architectures whose field is known to differ from the trained activation. */
  readonly activation?: "gelu-tanh";
  readonly positions: "rope" | "learned";
  readonly hasHeadNorm: boolean;
  readonly scalesEmbedding: boolean;
  readonly biases: Readonly<Record<"qkv" | "oProj" | "mlp" | "output", BiasRule>>;
  readonly window: WindowRule;
  readonly weights: WeightNames;
}
