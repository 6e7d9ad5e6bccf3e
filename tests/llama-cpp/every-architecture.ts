/**
 * Metadata of a small model of every architecture of llama.cpp 0.5.0. The keys are those that the loaders of that release
 * ask for; a key that an architecture does not know has no effect. Source: src/llama-arch.cpp and src/models of llama.cpp.
 */
import { ARRAY, F32, type GgufField, U32 } from "../../server/src/formats/gguf/gguf-writer.test-support.ts";
import type { TinyModel, TinySizes } from "./architectures.ts";

const BOOL = 7;
const yes = Uint8Array.of(1);
const no = Uint8Array.of(0);

/** Names in the order of the library. */
export const ARCHITECTURE_NAMES: readonly string[] = (
  "llama llama4 deci falcon grok gpt2 gptj gptneox mpt baichuan starcoder refact bloom stablelm qwen qwen2 qwen2moe qwen2vl " +
  "qwen3 qwen3moe qwen3next qwen3vl qwen3vlmoe qwen35 qwen35moe qwen4exp phi2 phi3 phimoe plamo plamo2 plamo3 codeshell " +
  "orion internlm2 minicpm minicpm3 gemma gemma2 gemma3 gemma3n gemma4 starcoder2 mamba mamba2 maple jamba falcon-h1 " +
  "xverse command-r cohere2 cohere2moe dbrx olmo olmo2 olmoe muse-glimmer openelm arctic deepseek deepseek2 deepseek32 " +
  "deepseek4 chatglm glm4 glm4moe glm-dsa bitnet t5 jais jais2 nemotron nemotron_h nemotron_h_moe exaone exaone4 exaone-moe " +
  "rwkv6 rwkv6qwen2 rwkv7 arwkv7 granite granitemoe granitehybrid granite_swa plm bailingmoe bailingmoe2 bailingmoe3 dots1 " +
  "dots3note arcee afmoe laguna ernie4_5 ernie4_5-moe hunyuan-moe hunyuan-dense hunyuan_vl hy_v3 hy_v4 smollm3 gpt-oss lfm2 " +
  "lfm2moe dream smallthinker llada llada-moe seed_oss grovemoe apertus minimax-01 hrm_text minimax-m2 minimax-m3 cogvlm rnd1 " +
  "pangu-embedded mistral3 mistral4 paddleocr mimo2 step35 spark2_5 maincoder kimi-linear kimi-k3 talkie mellum nanbeige"
).split(" ");

const SIZES: TinySizes = { embedding: 256, heads: 2, headsKv: 2, feedForward: 384, layers: 2 };
const LATENT = [
  "deepseek2",
  "deepseek32",
  "glm-dsa",
  "dots3note",
  "kimi-linear",
  "bailingmoe3",
  "kimi-k3",
  "mistral4",
  "hy_v4",
];
/** Every second layer has no attention. */
const HYBRID = [
  ...[
    "plamo2",
    "jamba",
    "nemotron_h",
    "nemotron_h_moe",
    "granitehybrid",
    "lfm2",
    "lfm2moe",
    "kimi-linear",
    "bailingmoe3",
    "kimi-k3",
  ],
];
/** The pattern of windows is a list. */
const LISTED_WINDOWS = [
  "cohere2moe",
  "mimo2",
  "step35",
  "spark2_5",
  "muse-glimmer",
  "granite_swa",
  "dots3note",
  "maple",
];

function sizesOf(name: string): TinySizes {
  if (name === "llama4") return { ...SIZES, layers: 4 };
  if (name === "gemma4") return { ...SIZES, embedding: 128, feedForward: 192, layers: 5 };
  if (name === "gemma3n") return { ...SIZES, embedding: 64, heads: 1, headsKv: 1, feedForward: 96, layers: 22 };
  if (name === "deepseek4") return { ...SIZES, embedding: 512, heads: 8, headsKv: 1, feedForward: 1024, layers: 4 };
  if (name === "step35" || name === "laguna") return { ...SIZES, embedding: 160 };
  if (["qwen3", "muse-glimmer", "afmoe"].includes(name)) return { ...SIZES, heads: 4, headsKv: 2 };
  if (LATENT.includes(name)) return { ...SIZES, embedding: 128, heads: 1, headsKv: 1, feedForward: 192 };
  if (name.startsWith("nemotron_h")) return { ...SIZES, layers: 3 };
  if (name === "hrm_text") return { ...SIZES, layers: 8 };
  return SIZES;
}

/** Tensors without which a model cannot be computed, although its loader does not ask for them. */
const DELTA = ["blk.0.attn_qkv.weight", "blk.0.attn_gate.weight"];
const OPTIONAL: Readonly<Record<string, readonly string[]>> = {
  qwen3next: DELTA,
  qwen35: DELTA,
  qwen35moe: DELTA,
  "falcon-h1": ["blk.0.ssm_conv1d.bias", "blk.1.ssm_conv1d.bias"],
};

/** `hasExperts`: many architectures exist with or without. */
export function modelOf(architecture: string, hasExperts: boolean): TinyModel {
  const sizes = sizesOf(architecture);
  const keys = [
    ...commonKeys(sizes),
    ...attentionKeys(architecture, sizes),
    ...stateKeys(architecture, sizes),
    ...(hasExperts ? expertKeys(architecture, sizes) : []),
    ...ownKeys(architecture, sizes),
  ];
  return { architecture, sizes, keys, optional: OPTIONAL[architecture] ?? [] };
}

function commonKeys({ embedding }: TinySizes): readonly GgufField[] {
  return [
    ["features_length", U32, embedding],
    ["leading_dense_block_count", U32, 1],
    ["use_parallel_residual", BOOL, no],
    ["logit_scale", F32, 1],
    ["full_attention_interval", U32, 2],
    ["attention.max_alibi_bias", F32, 8],
    ["attention.clamp_kqv", F32, 1],
    ["attention.group_norm_epsilon", F32, 1e-5],
    ["attention.group_norm_groups", U32, 8],
    ["attention.relative_buckets_count", U32, 8],
    ["attention.sliding_window", U32, 32],
    ["residual_scale", F32, 3.5],
    ["attn_res.block_size", U32, 12],
    ["activation.situ_beta", F32, 4],
    ["activation.situ_linear_beta", F32, 25],
  ];
}

function attentionKeys(name: string, { embedding, heads, layers }: TinySizes): readonly GgufField[] {
  const head = embedding / heads;
  const perLayer = Array.from({ length: layers }, (_, i) => (i === 1 ? 0 : heads));
  const pattern = Array.from({ length: layers }, (_, i) => i % 2);
  return [
    ["attention.q_lora_rank", U32, name === "deepseek4" ? 64 : 512],
    ["attention.kv_lora_rank", U32, 512],
    [
      "attention.sliding_window_pattern",
      ...(LISTED_WINDOWS.includes(name) ? ([ARRAY, [U32, pattern]] as const) : ([U32, 2] as const)),
    ],
    ["attention.indexer.head_count", U32, name === "minimax-m3" ? heads : 64],
    ["attention.indexer.key_length", U32, name === "qwen4exp" ? head : 128],
    ["attention.indexer.top_k", U32, 131_072],
    ["attention.indexer.block_size", U32, 4],
    ["attention.indexer.local_blocks", U32, 1],
    ["rope.dimension_sections", ARRAY, [U32, Array.from({ length: 4 }, () => head / 4)]],
    ...(HYBRID.includes(name)
      ? ([
          ["attention.head_count", ARRAY, [U32, perLayer]],
          ["attention.head_count_kv", ARRAY, [U32, perLayer]],
        ] as const)
      : []),
    ...(LATENT.includes(name)
      ? ([
          ["attention.key_length", U32, 576],
          ["attention.value_length", U32, 512],
          ["rope.dimension_count", U32, 64],
          ["attention.key_length_mla", U32, 192],
          ["attention.value_length_mla", U32, 128],
        ] as const)
      : []),
  ];
}

function stateKeys(name: string, { embedding, heads }: TinySizes): readonly GgufField[] {
  const isDelta = ["qwen3next", "qwen35", "qwen35moe", "qwen4exp"].includes(name);
  return [
    ["ssm.inner_size", U32, isDelta ? 256 : 2 * embedding],
    ["ssm.conv_kernel", U32, 4],
    ["ssm.state_size", U32, 128],
    ["ssm.time_step_rank", U32, heads],
    ["ssm.group_count", U32, name === "plamo2" ? 0 : 2],
    ["kda.head_dim", U32, 128],
    ["kda.safe_gate", BOOL, yes],
    ["kda.gate_lower_bound", F32, -5],
    ["wkv.head_size", U32, embedding / heads],
    ["time_mix_extra_dim", U32, 64],
    ["time_decay_extra_dim", U32, 128],
    ["token_shift_count", U32, 2],
    ["rescale_every_n_layers", U32, 6],
    ["attention.decay_lora_rank", U32, 32],
    ["attention.iclr_lora_rank", U32, 32],
    ["attention.value_residual_mix_lora_rank", U32, 32],
    ["attention.gate_lora_rank", U32, 32],
    ["shortconv.l_cache", U32, 3],
  ];
}

function expertKeys(name: string, { feedForward }: TinySizes): readonly GgufField[] {
  return [
    ["expert_feed_forward_length", U32, feedForward],
    ["expert_shared_feed_forward_length", U32, feedForward / 2],
    ["expert_chunk_feed_forward_length", U32, feedForward / 2],
    ["expert_latent_length", U32, feedForward],
    ["interleave_moe_layer_step", U32, 2],
    ["expert_count", U32, 2],
    ["expert_used_count", U32, 2],
    ["expert_shared_count", U32, 1],
    ["expert_gating_func", U32, name === "deepseek4" ? 4 : 2],
    ["expert_group_scale", F32, 1],
    ["experts_per_group", U32, 1],
    ["expert_weights_scale", F32, 1],
  ];
}

/** Keys that one architecture asks for, or with other values. */
function ownKeys(name: string, sizes: TinySizes): readonly GgufField[] {
  const every = (of: (layer: number) => number): PerLayer => [
    ARRAY,
    [U32, Array.from({ length: sizes.layers }, (_, i) => of(i))],
  ];
  return { ...keysOfHybrids(sizes, every), ...keysOfOthers(every) }[name] ?? [];
}

type PerLayer = readonly [type: number, value: unknown];
type KeysByName = Readonly<Record<string, readonly GgufField[]>>;
type EveryLayer = (of: (layer: number) => number) => PerLayer;

function keysOfHybrids({ embedding, heads, feedForward }: TinySizes, every: EveryLayer): KeysByName {
  const head = embedding / heads;
  return {
    gemma4: [
      ["embedding_length_per_layer_input", U32, embedding / 2],
      ["attention.shared_kv_layers", U32, 0],
      ["attention.key_length", U32, head],
      ["attention.value_length", U32, head],
      ["attention.key_length_swa", U32, head],
      ["attention.value_length_swa", U32, head],
      ["rope.freq_base_swa", F32, 10_000],
      ["attention.sliding_window_pattern", ARRAY, [BOOL, [1, 1, 1, 1, 0].map((value) => Uint8Array.of(value))]],
    ],
    nemotron_h: [["feed_forward_length", ...every((layer) => (layer <= 1 ? 0 : feedForward))]],
    nemotron_h_moe: [["feed_forward_length", ...every((layer) => (layer <= 1 ? 0 : feedForward))]],
    "minimax-m3": [["rope.dimension_count", U32, 64]],
    deepseek4: [
      ["attention.key_length", U32, head],
      ["attention.value_length", U32, head],
      ["rope.dimension_count", U32, head / 2],
      ["attention.output_group_count", U32, 8],
      ["attention.output_lora_rank", U32, 32],
      ["attention.compress_ratios", ...every((layer) => [0, 0, 4, 128][layer] ?? 0)],
      ["attention.compress_rope_freq_base", F32, 160_000],
      ["hyper_connection.count", U32, 4],
      ["hyper_connection.sinkhorn_iterations", U32, 2],
      ["hyper_connection.epsilon", F32, 1e-6],
      ["hash_layer_count", U32, 0],
      ["swiglu_clamp_exp", F32, 10],
      ["expert_weights_norm", BOOL, yes],
    ],
  };
}

function keysOfOthers(every: EveryLayer): KeysByName {
  return {
    hy_v4: [
      ["hyper_connection.count", U32, 4],
      ["hyper_connection.epsilon", F32, 1e-6],
      ["hyper_connection.magnitude", F32, 2],
      ["swiglu_clamp_exp", F32, 10],
      ["expert_weights_norm", BOOL, yes],
      ["attention.indexer.types", ...every((layer) => (layer % 2 === 0 ? 1 : 0))],
    ],
    dots3note: [
      ["attention.kv_lora_rank_swa", U32, 512],
      ["attention.key_length_swa", U32, 576],
      ["attention.value_length_swa", U32, 512],
      ["attention.key_length_mla_swa", U32, 192],
      ["attention.value_length_mla_swa", U32, 128],
      ["rope.freq_base_swa", F32, 10_000],
      ["attention.indexer.types", ...every((layer) => (layer % 2 === 0 ? 1 : 0))],
    ],
    hrm_text: [
      ["hrm.layers_per_stack", U32, 1],
      ["hrm.h_cycles", U32, 2],
      ["hrm.l_cycles", U32, 3],
    ],
    maple: [["swiglu_clamp_exp", F32, 7]],
    bailingmoe3: [
      ["swiglu_clamp_exp", ARRAY, [F32, [0, 4]]],
      ["swiglu_clamp_shexp", ARRAY, [F32, [0, 5]]],
    ],
  };
}
