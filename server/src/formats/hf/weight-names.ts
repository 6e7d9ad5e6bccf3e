/**
 * Hugging Face weight names of each architecture, by the class name in config.json. Source: the modeling files of
 * transformers. Names only: `models/` says what the modules compute.
 */

/** Module names in the files, without ".weight" and ".bias". Names inside a layer follow the name of the layer. */
export interface WeightNames {
  /** Prefixes of every name; the first under which the embedding is found counts. */
  readonly prefixes: readonly string[];
  readonly embedding: string;
  /** Learned position embeddings. */
  readonly positions?: string;
  readonly norm: string;
  readonly output: string;
  /** "#" stands for the layer number. */
  readonly layer: string;
  readonly attentionNorm: string;
  /** Three modules, or one whose rows are queries, keys and values. */
  readonly qkv: readonly string[];
  readonly headNorms?: readonly [queries: string, keys: string];
  readonly oProj: string;
  /** Norm of the attention output, applied before the residual add. */
  readonly attentionPostNorm?: string;
  /** Absent when MLP and attention share one input norm. */
  readonly mlpNorm?: string;
  /**
   * Gate and up projections, or one module with the rows of both. A single entry without a gate is the first layer of
   * the MLP.
   */
  readonly mlpIn: readonly string[];
  readonly mlpOut: string;
  readonly mlpPostNorm?: string;
  readonly experts?: ExpertNames;
  /** Matrices are [inputs, outputs] in the files (GPT-2's Conv1D). */
  readonly isTransposed?: boolean;
}

export interface ExpertNames {
  readonly router: string;
  /** "#" stands for the expert number. */
  readonly mlpIn: readonly string[];
  readonly mlpOut: string;
  readonly sharedIn?: readonly string[];
  readonly sharedOut?: string;
  readonly sharedGate?: string;
}

const LLAMA: WeightNames = {
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

const HEAD_NORMS = ["self_attn.q_norm", "self_attn.k_norm"] as const;

const MIXTRAL: WeightNames = {
  ...LLAMA,
  experts: {
    router: "block_sparse_moe.gate",
    mlpIn: ["block_sparse_moe.experts.#.w1", "block_sparse_moe.experts.#.w3"],
    mlpOut: "block_sparse_moe.experts.#.w2",
  },
};

const QWEN_EXPERTS = {
  router: "mlp.gate",
  mlpIn: ["mlp.experts.#.gate_proj", "mlp.experts.#.up_proj"],
  mlpOut: "mlp.experts.#.down_proj",
} as const;

const QWEN2_MOE: WeightNames = {
  ...LLAMA,
  experts: {
    ...QWEN_EXPERTS,
    sharedIn: ["mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj"],
    sharedOut: "mlp.shared_expert.down_proj",
    sharedGate: "mlp.shared_expert_gate",
  },
};

const GEMMA2: WeightNames = {
  ...LLAMA,
  attentionPostNorm: "post_attention_layernorm",
  mlpNorm: "pre_feedforward_layernorm",
  mlpPostNorm: "post_feedforward_layernorm",
};

const GEMMA3: WeightNames = { ...GEMMA2, headNorms: HEAD_NORMS };

const { mlpNorm: _, ...ONE_NORM } = LLAMA;

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

const LLAVA: WeightNames = { ...LLAMA, prefixes: ["language_model.model."], output: "language_model.lm_head" };

const QWEN2_VL: WeightNames = { ...LLAMA, prefixes: ["model.language_model.", "model."] };

const WEIGHT_NAMES: ReadonlyMap<string, WeightNames> = new Map<string, WeightNames>([
  ["LlamaForCausalLM", LLAMA],
  ["MistralForCausalLM", LLAMA],
  ["MixtralForCausalLM", MIXTRAL],
  ["Qwen2ForCausalLM", LLAMA],
  ["Qwen2MoeForCausalLM", QWEN2_MOE],
  ["Qwen3ForCausalLM", { ...LLAMA, headNorms: HEAD_NORMS }],
  ["Qwen3MoeForCausalLM", { ...LLAMA, headNorms: HEAD_NORMS, experts: QWEN_EXPERTS }],
  ["GemmaForCausalLM", LLAMA],
  ["Gemma2ForCausalLM", GEMMA2],
  ["Gemma3ForCausalLM", GEMMA3],
  // The language model of vision-language models.
  ["Gemma3ForConditionalGeneration", { ...GEMMA3, prefixes: ["language_model.model.", "model.language_model."] }],
  ["LlavaForConditionalGeneration", LLAVA],
  ["LlavaNextForConditionalGeneration", LLAVA],
  ["Qwen2VLForConditionalGeneration", QWEN2_VL],
  ["Qwen2_5_VLForConditionalGeneration", QWEN2_VL],
  ["PhiForCausalLM", PHI],
  ["Phi3ForCausalLM", { ...LLAMA, qkv: ["self_attn.qkv_proj"], mlpIn: ["mlp.gate_up_proj"] }],
  ["Starcoder2ForCausalLM", { ...LLAMA, mlpIn: ["mlp.c_fc"], mlpOut: "mlp.c_proj" }],
  ["GPT2LMHeadModel", GPT2],
  // As TensorRT-LLM checkpoints hold it.
  ["GPTForCausalLM", GPT],
]);

/** @throws Error when the architecture is unknown */
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
