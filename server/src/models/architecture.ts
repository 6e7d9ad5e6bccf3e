/**
 * What tells one architecture from another: a row of the table in architectures.ts. It holds names and switches; what
 * they do is in decoder-config.ts, weight-plan.ts and decoder.ts.
 */

/** Names of the modules in the files, without ".weight" and ".bias". Those of a layer are behind its own name. */
export interface WeightNames {
  /** Before every name; the first under which the embedding is found. */
  readonly prefixes: readonly string[];
  readonly embedding: string;
  /** Learned positions. */
  readonly positions?: string;
  readonly norm: string;
  readonly output: string;
  /** "#" stands for the number of the layer. */
  readonly layer: string;
  readonly attentionNorm: string;
  /** Three modules, or one whose rows are queries, keys and values. */
  readonly qkv: readonly string[];
  readonly headNorms?: readonly [queries: string, keys: string];
  readonly attentionOut: string;
  /** On what attention gives, before it is added. */
  readonly attentionPostNorm?: string;
  /** Absent when the MLP reads what attention reads. */
  readonly mlpNorm?: string;
  /** Gate and up, or one whose rows are both; alone, the first layer of an MLP without a gate. */
  readonly mlpIn: readonly string[];
  readonly mlpOut: string;
  readonly mlpPostNorm?: string;
  readonly experts?: ExpertNames;
  /** Matrices lie [inputs, outputs] in the files. */
  readonly isTransposed?: boolean;
}

export interface ExpertNames {
  readonly router: string;
  /** "#" stands for the number of the expert. */
  readonly mlpIn: readonly string[];
  readonly mlpOut: string;
  readonly sharedIn?: readonly string[];
  readonly sharedOut?: string;
  readonly sharedGate?: string;
}

/** Which layers see a window only, where config.json does not list them. */
export type WindowRule =
  /** All, when a window is set. */
  | { readonly kind: "all" }
  /** All but every nth; the field may say another n. */
  | { readonly kind: "all-but-every"; readonly n: number; readonly field?: string }
  /** Those from a layer on, when a field switches it on. */
  | { readonly kind: "from-layer"; readonly isOnField: string; readonly field: string };

/** A bias that is there, is not, or is as a field of config.json says. */
export type BiasRule = boolean | { readonly field: string };

export interface Architecture {
  /** As config.json has it in `architectures`. */
  readonly className: string;
  /** The object of config.json that describes the decoder, where it is not the whole. */
  readonly section?: string;
  /** Names of fields where they are not those of Llama. */
  readonly aliases?: Readonly<Record<string, string>>;
  /** What files leave out, by the names they would have there. */
  readonly defaults?: Readonly<Record<string, unknown>>;
  /** Values of fields, if set, without which the model is another one than we compute. */
  readonly requires?: Readonly<Record<string, unknown>>;
  readonly norm: "rms" | "rms-plus-one" | "layer";
  readonly residual: "sequential" | "parallel";
  readonly isGated: boolean;
  /** Width of the MLP over that of the rows, where the field is not set. */
  readonly intermediateRatio?: number;
  /** Where the field is known to say something else than was trained. */
  readonly activation?: "gelu-tanh";
  readonly positions: "rope" | "learned";
  readonly hasHeadNorm: boolean;
  readonly scalesEmbedding: boolean;
  readonly biases: Readonly<Record<"qkv" | "attentionOut" | "mlp" | "output", BiasRule>>;
  readonly window: WindowRule;
  readonly weights: WeightNames;
}
