/**
 * Hugging Face weight names of each architecture, by the class name in config.json. Source: the modeling files of
 * transformers. Names only: `models/` says what the modules compute.
 */

/** Module names in the files, without ".weight" and ".bias". Names inside a layer follow the name of the layer. */
export interface WeightNames {
  /** Prefixes of every name; the first under which the embedding is found counts. */
  readonly prefixes: readonly string[];
  readonly embedding: string;
  readonly embeddingNorm?: string;
  /** Learned position embeddings. */
  readonly positions?: string;
  /** Rows in front of that of the first position (OPT has two for padding). */
  readonly positionsOffset?: number;
  /** Table of what tells the texts of a pair apart. */
  readonly segments?: string;
  readonly norm: string;
  readonly output: string;
  /** Each row of the output has length 1 (Baichuan 2). */
  readonly hasUnitOutputRows?: boolean;
  /** "#" stands for the layer number. */
  readonly layer: string;
  /** Norms that replace the rows (BERT): that of the embeddings, and in each layer the one at its end. */
  readonly postNorms?: readonly [embeddings: string, layer: string];
  /** The first layer has no norm in front of attention (ModernBERT). */
  readonly hasBareFirstLayer?: boolean;
  /** Absent where attention reads the residual stream as it is. */
  readonly attentionNorm?: string;
  /** Three modules, or one whose rows are queries, keys and values. */
  readonly qkv: readonly string[];
  /** Layers without a window have no module of values: their keys are values too, before norms (Gemma 4). */
  readonly isValueKey?: boolean;
  /** The rows of one module are, for each key head, the queries that read it, the key and the value. */
  readonly hasGroupedQkv?: boolean;
  /** The gates of attention's outputs; absent: their rows follow those of each query head. */
  readonly outputGate?: string;
  readonly headNorms?: readonly [queries: string, keys: string];
  /**
   * Weights of head norms: one for all heads, or one for each, which are rows of one tensor or tensors of their own, "#"
   * standing for the head. Absent: one for all.
   */
  readonly headNormWeights?: "shared" | "rows" | "tensors";
  /** Names of latent attention, whose `qkv` are the down projections of queries, and of keys and values. */
  readonly latent?: LatentNames;
  /** Names of recurrent layers. */
  readonly recurrent?: RecurrentNames;
  /** A logit of each head that takes a share of its softmax: the name of the tensor. */
  readonly sinks?: string;
  /** Table of numbers by distance, for each head; "first": layers share that of the first. */
  readonly relativeBias?: { readonly name: string; readonly layers: "first" | "all" };
  /** Table of positions' rows, and the norm that they pass. */
  readonly relativeTable?: { readonly name: string; readonly norm?: string };
  /** Attention to the rows of an encoder, behind that to the tokens. */
  readonly cross?: CrossNames;
  /** Convolutions in front of an encoder of sound. */
  readonly audioStem?: readonly [string, string];
  readonly oProj: string;
  /** Norm of the attention output, applied before the residual add. */
  readonly attentionPostNorm?: string;
  /** Absent when MLP and attention share one input norm, or the MLP reads the residual stream as it is. */
  readonly mlpNorm?: string;
  /**
   * Gate and up projections, or one module with the rows of both. A single entry without a gate is the first layer of
   * the MLP.
   */
  readonly mlpIn: readonly string[];
  readonly mlpOut: string;
  readonly mlpPostNorm?: string;
  /** Parameters of xIELU, each a tensor with one number. */
  readonly xielu?: { readonly positive: string; readonly negative: string; readonly linear: string };
  readonly experts?: ExpertNames;
  /** Names of experts in files that have the matrices of all behind each other; taken where the files have them. */
  readonly stackedExperts?: ExpertNames;
  readonly perLayer?: PerLayerNames;
  readonly altUp?: AltUpNames;
  /** A number by which the rows behind a layer are multiplied: the name of the tensor. */
  readonly layerScale?: string;
  /** Matrices are [inputs, outputs] in the files (GPT-2's Conv1D). */
  readonly isTransposed?: boolean;
}

/** Modules of layers that have a state in place of attention. */
export interface RecurrentNames {
  /** Projections of the rows, stacked; of Gated DeltaNet those of queries, keys and values, of gates, of beta and of decays. */
  readonly in: readonly string[];
  /** Gated DeltaNet's four projections are two, whose rows are groups by key heads. */
  readonly isGrouped?: boolean;
  readonly out: string;
  readonly conv: string;
  /** Tensors with a number for each head, and the norm of the outputs; absent where there are none. */
  readonly timeBias?: string;
  readonly decay?: string;
  readonly skip?: string;
  readonly norm?: string;
}

/** Rows of each token for every layer: table, projection and norm of the model; gate, output and norm of a layer. */
export interface PerLayerNames {
  readonly table: string;
  readonly projection: string;
  readonly norm: string;
  readonly gate: string;
  readonly out: string;
  readonly outNorm: string;
}

/** Alternating updates: projections of the model, "#" standing for a stream, and the modules of a layer. */
export interface AltUpNames {
  readonly projection: string;
  readonly unprojection: string;
  readonly routerNorm: string;
  readonly router: string;
  readonly prediction: string;
  readonly correction: string;
  /** The name of the tensor. */
  readonly outputScale: string;
  readonly laurel: readonly [left: string, right: string, norm: string];
}

/** `norm` is the norm between the two attentions, wherever the model's own names put it. */
export interface CrossNames {
  readonly norm: string;
  readonly query: string;
  readonly keyValue: readonly [keys: string, values: string];
  readonly out: string;
}

export interface LatentNames {
  readonly queryNorm: string;
  readonly queryUp: string;
  readonly keyNorm: string;
  readonly keyValueUp: string;
}

export interface ExpertNames {
  readonly router: string;
  /** Added to scores for the choice only: the name of the tensor. */
  readonly correction?: string;
  /** It has a dimension in front. */
  readonly isCorrectionRow?: boolean;
  readonly hasRouterBias?: boolean;
  /** Experts have biases. */
  readonly hasBias?: boolean;
  /** Names are those of tensors, without ".weight". */
  readonly hasBareTensors?: boolean;
  /** Matrices of all experts in one tensor are [inputs, outputs] each. */
  readonly isTransposed?: boolean;
  /** "#" stands for the expert number; without it, one module has the matrices of all experts behind each other. */
  readonly mlpIn: readonly string[];
  readonly mlpOut: string;
  readonly sharedIn?: readonly string[];
  readonly sharedOut?: string;
  readonly sharedGate?: string;
  /** Norms of experts beside a dense MLP. */
  readonly beside?: BesideNames;
}

/** `routerNorm` and `outScale` are tensors, the others modules. */
export interface BesideNames {
  readonly routerNorm: string;
  readonly norm: string;
  readonly denseNorm: string;
  readonly outNorm: string;
  readonly outScale: string;
}

/** The names from which most others differ little. */
export const LLAMA_NAMES: WeightNames = {
  prefixes: ["model.", ""],
  embedding: "embed_tokens",
  norm: "norm",
  output: "lm_head",
  layer: "layers.#.",
  attentionNorm: "input_layernorm",
  qkv: ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
  oProj: "self_attn.o_proj",
  mlpNorm: "post_attention_layernorm",
  mlpIn: ["mlp.gate_proj", "mlp.up_proj"],
  mlpOut: "mlp.down_proj",
};

export const HEAD_NORMS: readonly [string, string] = ["self_attn.q_norm", "self_attn.k_norm"];

export const MIXTRAL_EXPERTS: ExpertNames = {
  router: "block_sparse_moe.gate",
  mlpIn: ["block_sparse_moe.experts.#.w1", "block_sparse_moe.experts.#.w3"],
  mlpOut: "block_sparse_moe.experts.#.w2",
};

const MIXTRAL: WeightNames = { ...LLAMA_NAMES, experts: MIXTRAL_EXPERTS };

export const QWEN_EXPERTS: ExpertNames = {
  router: "mlp.gate",
  mlpIn: ["mlp.experts.#.gate_proj", "mlp.experts.#.up_proj"],
  mlpOut: "mlp.experts.#.down_proj",
};

const QWEN2_MOE: WeightNames = {
  ...LLAMA_NAMES,
  experts: {
    ...QWEN_EXPERTS,
    sharedIn: ["mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj"],
    sharedOut: "mlp.shared_expert.down_proj",
    sharedGate: "mlp.shared_expert_gate",
  },
};

const GEMMA2: WeightNames = {
  ...LLAMA_NAMES,
  attentionPostNorm: "post_attention_layernorm",
  mlpNorm: "pre_feedforward_layernorm",
  mlpPostNorm: "post_feedforward_layernorm",
};

const GEMMA3: WeightNames = { ...GEMMA2, headNorms: HEAD_NORMS };

const { mlpNorm: _, ...ONE_NORM } = LLAMA_NAMES;

const PHI: WeightNames = {
  ...ONE_NORM,
  norm: "final_layernorm",
  oProj: "self_attn.dense",
  mlpIn: ["mlp.fc1"],
  mlpOut: "mlp.fc2",
};

const GPT2: WeightNames = {
  prefixes: ["transformer.", ""],
  embedding: "wte",
  positions: "wpe",
  norm: "ln_f",
  output: "lm_head",
  layer: "h.#.",
  attentionNorm: "ln_1",
  qkv: ["attn.c_attn"],
  oProj: "attn.c_proj",
  mlpNorm: "ln_2",
  mlpIn: ["mlp.c_fc"],
  mlpOut: "mlp.c_proj",
  isTransposed: true,
};

const { isTransposed: __, ...GPT } = GPT2;

const LLAVA: WeightNames = { ...LLAMA_NAMES, prefixes: ["language_model.model."], output: "language_model.lm_head" };

const QWEN2_VL: WeightNames = { ...LLAMA_NAMES, prefixes: ["model.language_model.", "model."] };

const WEIGHT_NAMES: ReadonlyMap<string, WeightNames> = new Map<string, WeightNames>([
  ["LlamaForCausalLM", LLAMA_NAMES],
  ["MistralForCausalLM", LLAMA_NAMES],
  ["MixtralForCausalLM", MIXTRAL],
  ["Qwen2ForCausalLM", LLAMA_NAMES],
  ["Qwen2MoeForCausalLM", QWEN2_MOE],
  ["Qwen3ForCausalLM", { ...LLAMA_NAMES, headNorms: HEAD_NORMS }],
  ["Qwen3MoeForCausalLM", { ...LLAMA_NAMES, headNorms: HEAD_NORMS, experts: QWEN_EXPERTS }],
  ["GemmaForCausalLM", LLAMA_NAMES],
  ["Gemma2ForCausalLM", GEMMA2],
  ["Gemma3ForCausalLM", GEMMA3],
  // The language model of vision-language models.
  ["Gemma3ForConditionalGeneration", { ...GEMMA3, prefixes: ["language_model.model.", "model.language_model."] }],
  ["LlavaForConditionalGeneration", LLAVA],
  ["LlavaNextForConditionalGeneration", LLAVA],
  ["Qwen2VLForConditionalGeneration", QWEN2_VL],
  ["Qwen2_5_VLForConditionalGeneration", QWEN2_VL],
  ["Qwen3VLForConditionalGeneration", { ...QWEN2_VL, headNorms: HEAD_NORMS }],
  [
    "Qwen3VLMoeForConditionalGeneration",
    {
      ...QWEN2_VL,
      headNorms: HEAD_NORMS,
      experts: QWEN_EXPERTS,
      // The matrices of all experts are in one tensor.
      stackedExperts: {
        ...QWEN_EXPERTS,
        mlpIn: ["mlp.experts.gate_up_proj"],
        mlpOut: "mlp.experts.down_proj",
        hasBareTensors: true,
      },
    },
  ],
  ["PhiForCausalLM", PHI],
  ["Phi3ForCausalLM", { ...LLAMA_NAMES, qkv: ["self_attn.qkv_proj"], mlpIn: ["mlp.gate_up_proj"] }],
  ["Starcoder2ForCausalLM", { ...LLAMA_NAMES, mlpIn: ["mlp.c_fc"], mlpOut: "mlp.c_proj" }],
  ["GPT2LMHeadModel", GPT2],
  // As TensorRT-LLM checkpoints hold it.
  ["GPTForCausalLM", GPT],
]);

/** For the classes that TensorRT-LLM checkpoints may have. @throws Error when the architecture is another one */
export function weightNamesOf(className: string): WeightNames {
  const names = WEIGHT_NAMES.get(className);
  if (names === undefined) throw new Error(`the names of the weights of ${className} are not known`);
  return names;
}

export function hasWeightNames(className: unknown): className is string {
  return typeof className === "string" && WEIGHT_NAMES.has(className);
}

/** Traits that decide which tensors exist and that no TensorRT-LLM checkpoint config states. */
export interface LayoutTraits {
  readonly isGated: boolean;
  readonly norm: { readonly kind: "rms" | "layer"; readonly weightOffset: 0 | 1 };
}

const WITH_LAYER_NORM: readonly string[] = [
  "PhiForCausalLM",
  "Starcoder2ForCausalLM",
  "GPT2LMHeadModel",
  "GPTForCausalLM",
];

export function layoutTraits(className: string): LayoutTraits {
  const isLayerNorm = WITH_LAYER_NORM.includes(className);
  const weightOffset = className.startsWith("Gemma") ? 1 : 0;
  return { isGated: !isLayerNorm, norm: { kind: isLayerNorm ? "layer" : "rms", weightOffset } };
}
