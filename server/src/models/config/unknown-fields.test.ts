import assert from "node:assert/strict";
import { test } from "node:test";
import { parseDecoderConfig } from "./parse-decoder-config.ts";

const SIZES = {
  vocab_size: 96,
  hidden_size: 64,
  intermediate_size: 128,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  max_position_embeddings: 64,
};

function parse(className: string, fields: object): void {
  const config = { architectures: [className], ...SIZES, ...fields };
  parseDecoderConfig({ config, generation: undefined, at: { config: "config.json", generation: "test" } });
}

const REFUSED: readonly (readonly [className: string, fields: object, expected: RegExp])[] = [
  [
    "LlamaForCausalLM",
    { attention_sinks: 4 },
    /config\.json: attention_sinks: expected no such field: .*LlamaForCausalLM/,
  ],
  ["LlamaForCausalLM", { residual_multiplier: 0.22 }, /residual_multiplier: expected no such field/],
  ["Qwen3ForCausalLM", { use_qk_norm: true }, /use_qk_norm: expected no such field/],
  ["MistralForCausalLM", { rotary_pct: 0.25 }, /rotary_pct: .*got 0\.25/],
  [
    "MistralForCausalLM",
    { rope_scaling: { rope_type: "yarn", factor: 4, llama_4_scaling_beta: 0.1 } },
    /rope_scaling: llama_4_scaling_beta: expected no such field/,
  ],
  [
    "Olmo3ForCausalLM",
    { rope_parameters: { full_attention: { rope_type: "default" }, sliding_attention: { wave: 2 } } },
    /rope_parameters: sliding_attention: wave: expected no such field/,
  ],
];

for (const [className, fields, expected] of REFUSED) {
  test(`parseDecoderConfig() refuses ${JSON.stringify(fields)} of ${className}`, () => {
    assert.throws(() => parse(className, fields), expected);
  });
}

/** Fields of published files that change nothing, or say what is so anyway. */
const TAKEN: readonly (readonly [className: string, fields: object])[] = [
  ["LlamaForCausalLM", { pretraining_tp: 1, rope_interleaved: false, is_llama_config: true, unsloth_fixed: true }],
  ["LlamaForCausalLM", { attention_dropout: 0.1, embd_pdrop: 0.1, use_cache: true, torch_dtype: "bfloat16" }],
  ["LlamaForCausalLM", { rope_scaling: null, residual_multiplier: 1, qk_layernorm: false, logit_scale: null }],
  ["Phi3ForCausalLM", { full_attn_mod: 1, interpolate_factor: 1, lm_head_bias: false, sliding_window: 32 }],
  ["MixtralForCausalLM", { num_local_experts: 4, num_experts_per_tok: 2, router_aux_loss_coef: 0.02 }],
  ["MixtralForCausalLM", { num_local_experts: 4, num_experts_per_tok: 2, router_jitter_noise: 0.01 }],
  ["Qwen2ForCausalLM", { use_mrope: false, use_sliding_window: false, sliding_window: 32, max_window_layers: 28 }],
  ["Starcoder2ForCausalLM", { norm_type: "layer_norm", mlp_type: "default", attention_softmax_in_fp32: true }],
  ["GPTNeoXForCausalLM", { classifier_dropout: 0.1, initializer_range: 0.02, gradient_checkpointing: false }],
];

for (const [className, fields] of TAKEN) {
  test(`parseDecoderConfig() takes ${JSON.stringify(fields)} of ${className}`, () => parse(className, fields));
}
