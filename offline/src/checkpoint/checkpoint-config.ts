/**
 * Describes a decoder as a TensorRT-LLM checkpoint config ("TensorRT-LLM Checkpoint" documentation). Fields without a
 * TensorRT-LLM name keep their Hugging Face name. Pure.
 */
import type { FloatType } from "@nereid/server/device/cpu/convert-elements";
import { ToolError } from "@nereid/server/files/tool-error";
import { HfFields } from "@nereid/server/formats/hf/config-fields";
import { hasWeightNames, weightNamesOf } from "@nereid/server/formats/hf/weight-names";
import type { LayoutMapping } from "@nereid/server/formats/trtllm/layout";
import type { Activation, DecoderConfig, Rope, RopeScaling } from "@nereid/server/models/config/decoder-config";

export interface Quantization {
  readonly quant_algo: string | null;
  readonly kv_cache_quant_algo: string | null;
  readonly [detail: string]: unknown;
}

export const NOT_QUANTIZED: Quantization = { quant_algo: null, kv_cache_quant_algo: null };

export interface CheckpointConfigOptions {
  /** The Hugging Face folder's config, for class name and training type. */
  readonly source: unknown;
  readonly config: DecoderConfig;
  readonly dtype: FloatType;
  readonly mapping: LayoutMapping;
  readonly quantization: Quantization;
}

export const DTYPE_NAMES: Readonly<Record<FloatType, string>> = { f32: "float32", f16: "float16", bf16: "bfloat16" };

const ACTIVATIONS: Readonly<Record<Activation, string>> = {
  silu: "silu",
  "gelu-tanh": "gelu_pytorch_tanh",
  "gelu-erf": "gelu",
  relu: "relu",
  relu2: "squared-relu",
  "swiglu-clamped": "swiglu",
  xielu: "xielu",
};
/** Values of the field by which TensorRT-LLM distinguishes models of one class. */
const QWEN_TYPES: ReadonlyMap<string, string> = new Map([
  ["Qwen2ForCausalLM", "qwen2"],
  ["Qwen2MoeForCausalLM", "qwen2_moe"],
  ["Qwen3ForCausalLM", "qwen3"],
  ["Qwen3MoeForCausalLM", "qwen3_moe"],
]);
/** The language model of a vision-language model is written as the text-only model. */
const WRITTEN_AS: ReadonlyMap<string, string> = new Map([["Gemma3ForConditionalGeneration", "Gemma3ForCausalLM"]]);

/**
 * The class of a config.json. @throws ToolError for one that has no names of weights in TensorRT-LLM, or keeps the matrices of all
 * experts in one tensor, which the tools do not take apart
 */
export function expectWrittenClass(source: CheckpointConfigOptions["source"]): string {
  const className = classNameOf(source);
  if (hasWeightNames(className) && weightNamesOf(className).stackedExperts === undefined) return className;
  throw new ToolError(`${className}: TensorRT-LLM checkpoints and engines of this class are not written`, {
    fix: "Serve the Hugging Face folder or GGUF file itself",
  });
}

export function checkpointConfig(options: CheckpointConfigOptions): Readonly<Record<string, unknown>> {
  const { source, config, dtype, mapping, quantization } = options;
  const { tpSize, ppSize, embeddingSplit } = mapping;
  const className = expectWrittenClass(source);
  const fields = {
    architecture: WRITTEN_AS.get(className) ?? className,
    qwen_type: QWEN_TYPES.get(className),
    dtype: DTYPE_NAMES[dtype],
    logits_dtype: "float32",
    vocab_size: config.vocabSize,
    hidden_size: config.hiddenSize,
    intermediate_size: config.mlp.intermediateSize,
    num_hidden_layers: config.numLayers,
    num_attention_heads: config.numHeads,
    num_key_value_heads: config.numKvHeads,
    head_size: config.headDim,
    max_position_embeddings: config.maxPositions,
    hidden_act: activationOf(config, className),
    norm_epsilon: config.norm.epsilon,
    qk_layernorm: config.headNorm !== undefined,
    ...biasFields(config, className),
    ...ropeFields(config),
    ...expertFields(config),
    ...windowFields(config),
    ...capFields(config),
    use_parallel_embedding: embeddingSplit !== "none",
    embedding_sharding_dim: embeddingSplit === "hidden" ? 1 : 0,
    share_embedding_table: config.tieWordEmbeddings,
    mapping: { world_size: tpSize * ppSize, tp_size: tpSize, pp_size: ppSize },
    quantization,
    torch_dtype: trainedType(source),
    bos_token_id: config.bosTokenId,
    eos_token_id: config.eosTokenIds.length === 0 ? undefined : config.eosTokenIds,
    pad_token_id: config.padTokenId,
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function classNameOf(source: unknown): string {
  const names = new HfFields(source, "config.json").get("architectures");
  return Array.isArray(names) ? String(names[0]) : "";
}

/** Written when the embedding scale depends on it. */
function trainedType(source: unknown): unknown {
  const root = new HfFields(source, "config.json");
  const holders = [root.section("text_config"), root].filter((fields) => fields !== undefined);
  return holders.map((fields) => fields.get("torch_dtype") ?? fields.get("dtype")).find((type) => type !== undefined);
}

/** "swiglu" means that one matrix holds gate and up projections. */
function activationOf({ experts, mlp }: DecoderConfig, className: string): string {
  const isStacked = experts !== undefined || className === "Phi3ForCausalLM";
  return isStacked && mlp.activation === "silu" ? "swiglu" : ACTIVATIONS[mlp.activation];
}

function biasFields({ biases, norm }: DecoderConfig, className: string): Record<string, unknown> {
  const fields = { attn_bias: biases.qkv, mlp_bias: biases.mlp };
  return norm.kind === "layer" && className !== "PhiForCausalLM" ? { ...fields, bias: biases.qkv } : fields;
}

function ropeFields({ ropes, headDim }: DecoderConfig): Record<string, unknown> {
  const [full, sliding] = ropes;
  if (full === undefined) return { position_embedding_type: "learned_absolute" };
  if (sliding !== undefined && (sliding.scaling.kind !== "none" || sliding.numDims !== full.numDims)) {
    throw new Error("positions of window layers that are scaled have no place in a TensorRT-LLM checkpoint");
  }
  if (full.sections !== undefined && full.scaling.kind !== "none") {
    throw new Error("scaled positions of three axes have no place in a TensorRT-LLM checkpoint");
  }
  return {
    position_embedding_type: positionType(full),
    rotary_base: full.theta,
    rotary_pct: full.numDims / headDim,
    rope_local_base_freq: sliding?.theta,
    ...scalingFields(full),
  };
}

function positionType({ scaling, sections }: Rope): string {
  if (sections !== undefined) return "mrope";
  return scaling.kind === "longrope" ? "long_rope" : "rope_gpt_neox";
}

function scalingFields({ scaling, sections }: Rope): Record<string, unknown> {
  if (sections !== undefined) return { rotary_scaling: { rope_type: "mrope", type: "mrope", mrope_section: sections } };
  if (scaling.kind === "none") return {};
  if (scaling.kind !== "longrope") return { rotary_scaling: scalingOf(scaling) };
  return {
    longrope_scaling_short_factors: scaling.shortFactors,
    longrope_scaling_long_factors: scaling.longFactors,
    longrope_attention_factor: scaling.magnitude,
    original_max_position_embeddings: scaling.originalMaxPositions,
  };
}

function scalingOf(scaling: Exclude<RopeScaling, { kind: "none" | "longrope" }>): Record<string, unknown> {
  const base = { rope_type: scaling.kind, type: scaling.kind, factor: scaling.factor };
  if (scaling.kind === "linear") return base;
  if (scaling.kind === "proportional")
    throw new Error("TensorRT-LLM checkpoints have no rotary positions of the kind proportional");
  const original = { original_max_position_embeddings: scaling.originalMaxPositions };
  if (scaling.kind === "llama3") {
    const { lowFrequencyFactor, highFrequencyFactor } = scaling;
    return { ...base, ...original, low_freq_factor: lowFrequencyFactor, high_freq_factor: highFrequencyFactor };
  }
  const { betaFast, betaSlow, isTruncated, magnitude } = scaling;
  return {
    ...base,
    ...original,
    beta_fast: betaFast,
    beta_slow: betaSlow,
    truncate: isTruncated,
    attention_factor: magnitude,
  };
}

function expertFields({ experts, layers }: DecoderConfig): Record<string, unknown> {
  if (experts === undefined) return {};
  const dense = layers.flatMap(({ mlp }, i) => (mlp === "dense" ? [i] : []));
  const shared = experts.sharedIntermediateSize;
  return {
    moe: {
      num_experts: experts.numExperts,
      top_k: experts.numChosen,
      normalization_mode: experts.isRenormalized ? 1 : 0,
      shared_expert_intermediate_size: shared,
    },
    moe_intermediate_size: experts.intermediateSize,
    moe_shared_expert_intermediate_size: shared === 0 ? undefined : shared,
    mlp_only_layers: dense,
  };
}

function windowFields({ layers }: DecoderConfig): Record<string, unknown> {
  const window = layers.find((layer) => layer.window !== undefined)?.window;
  const kinds = layers.map((layer) => (layer.window === undefined ? "full_attention" : "sliding_attention"));
  return { layer_types: kinds, sliding_window: window };
}

function capFields(config: DecoderConfig): Record<string, unknown> {
  const scalar = Math.round(1e6 / config.attentionScale ** 2) / 1e6;
  return {
    query_pre_attn_scalar: scalar === config.headDim ? undefined : scalar,
    attn_logit_softcapping: config.attentionSoftCap,
    final_logit_softcapping: config.logitSoftCap,
  };
}
