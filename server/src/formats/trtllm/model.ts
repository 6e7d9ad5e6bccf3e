/**
 * Converts the model fields of a TensorRT-LLM checkpoint config to Hugging Face's config.json. Fields without a
 * TensorRT-LLM name keep their Hugging Face name; Nereid's converter writes them. Source: TensorRT-LLM,
 * PretrainedConfig.
 */
import type { HfFields } from "../hf/config-fields.ts";

export interface TrtllmSizes {
  readonly architecture: string;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly numLayers: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly maxPositions: number;
  readonly experts: TrtllmExperts | undefined;
}

export interface TrtllmExperts {
  readonly numExperts: number;
  readonly numChosen: number;
  readonly intermediateSize: number;
  readonly sharedIntermediateSize: number;
  readonly isRenormalized: boolean;
  /** Layers that have none. */
  readonly denseLayers: readonly number[];
}

const MAX_SIZE: number = 1 << 24;
const MAX_EXPERTS = 4096;
const RENORMALIZED = 1;

/** Fields with the same name in both formats. */
const SHARED_FIELDS: readonly string[] = [
  "sliding_window",
  "layer_types",
  "sliding_window_pattern",
  "use_sliding_window",
  "max_window_layers",
  "rope_local_base_freq",
  "original_max_position_embeddings",
  "query_pre_attn_scalar",
  "attn_logit_softcapping",
  "final_logit_softcapping",
  "bos_token_id",
  "eos_token_id",
  "pad_token_id",
];

/** Undefined when the layers have none. @throws Error naming the field */
export function trtllmExperts(fields: HfFields): TrtllmExperts | undefined {
  const moe = fields.section("moe");
  if (moe === undefined) return undefined;
  const size = { min: 0, max: MAX_SIZE };
  const numExperts = moe.int("num_experts", { min: 0, max: MAX_EXPERTS, default: 0 });
  if (numExperts === 0) return undefined;
  const dense = fields.get("mlp_only_layers") ?? [];
  if (!Array.isArray(dense)) throw fields.refusal("mlp_only_layers", "numbers of layers", dense);
  const own = fields.int("moe_intermediate_size", { ...size, default: 0 });
  return {
    numExperts,
    numChosen: moe.int("top_k", { min: 1, max: numExperts }),
    intermediateSize: own === 0 ? fields.int("intermediate_size", { ...size, min: 1 }) : own,
    sharedIntermediateSize: moe.int("shared_expert_intermediate_size", { ...size, default: sharedSize(fields) }),
    isRenormalized: moe.int("normalization_mode", { min: 0, max: 2, default: RENORMALIZED }) === RENORMALIZED,
    denseLayers: dense as readonly number[],
  };
}

function sharedSize(fields: HfFields): number {
  return fields.int("moe_shared_expert_intermediate_size", { min: 0, max: MAX_SIZE, default: 0 });
}

/** Each size and switch under every name that an architecture uses for it. */
export function trtllmToHfConfig(fields: HfFields, sizes: TrtllmSizes): Readonly<Record<string, unknown>> {
  const epsilon = fields.positive("norm_epsilon", 1e-5);
  const activation = activationOf(fields);
  const attentionBias = fields.get("attn_bias") ?? fields.get("bias");
  const model = {
    architectures: [sizes.architecture],
    ...sizeFields(sizes),
    ...expertFields(sizes.experts),
    rms_norm_eps: epsilon,
    layer_norm_eps: epsilon,
    layer_norm_epsilon: epsilon,
    hidden_act: activation,
    hidden_activation: activation,
    activation_function: activation,
    rope_theta: fields.positive("rotary_base", 10_000),
    rope_scaling: scalingOf(fields),
    partial_rotary_factor: fields.get("rotary_pct"),
    tie_word_embeddings: fields.boolean("share_embedding_table", false),
    attention_bias: attentionBias ?? false,
    qkv_bias: attentionBias,
    use_bias: fields.get("bias"),
    mlp_bias: fields.boolean("mlp_bias", false),
    // The embedding scale is rounded to the type in which the model was trained.
    torch_dtype: fields.get("torch_dtype") ?? fields.get("dtype"),
    norm_epsilon: epsilon,
    ...Object.fromEntries(SHARED_FIELDS.map((name) => [name, fields.get(name)])),
  };
  return Object.fromEntries(Object.entries(model).filter(([, value]) => value !== undefined));
}

function sizeFields(sizes: TrtllmSizes): Record<string, unknown> {
  const { hiddenSize, numLayers, numHeads, intermediateSize, maxPositions } = sizes;
  return {
    vocab_size: sizes.vocabSize,
    hidden_size: hiddenSize,
    n_embd: hiddenSize,
    num_hidden_layers: numLayers,
    n_layer: numLayers,
    num_attention_heads: numHeads,
    n_head: numHeads,
    num_key_value_heads: sizes.numKvHeads,
    head_dim: sizes.headDim,
    intermediate_size: intermediateSize,
    n_inner: intermediateSize,
    max_position_embeddings: maxPositions,
    n_positions: maxPositions,
  };
}

function expertFields(experts: TrtllmExperts | undefined): Record<string, unknown> {
  if (experts === undefined) return {};
  return {
    num_experts: experts.numExperts,
    num_experts_per_tok: experts.numChosen,
    moe_intermediate_size: experts.intermediateSize,
    shared_expert_intermediate_size: experts.sharedIntermediateSize,
    norm_topk_prob: experts.isRenormalized,
    mlp_only_layers: experts.denseLayers,
  };
}

/** "swiglu" and "geglu" describe a fused layout; the activation itself is the plain one. */
function activationOf(fields: HfFields): unknown {
  const activation = fields.get("hidden_act");
  if (activation === "swiglu") return "silu";
  return activation === "geglu" ? "gelu" : activation;
}

function scalingOf(fields: HfFields): unknown {
  const short = fields.get("longrope_scaling_short_factors");
  if (short === undefined) return fields.get("rotary_scaling");
  return {
    rope_type: "longrope",
    short_factor: short,
    long_factor: fields.get("longrope_scaling_long_factors"),
    attention_factor: fields.get("longrope_attention_factor"),
    original_max_position_embeddings: fields.get("original_max_position_embeddings"),
  };
}
