import assert from "node:assert/strict";
import { test } from "node:test";
import { parseDecoderConfig } from "../config/parse-decoder-config.ts";
import { listWeights, nameTensors, type WeightList } from "./weight-list.ts";
import type { WeightPlan } from "./weight-plan.ts";

const SIZES = {
  vocab_size: 96,
  hidden_size: 64,
  intermediate_size: 128,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  max_position_embeddings: 64,
};
const EXPERTS = {
  num_experts: 4,
  num_experts_per_tok: 2,
  moe_intermediate_size: 64,
  shared_expert_intermediate_size: 64,
};

function listOf(config: object, copiesTiedOutput = false): WeightList {
  const at = { config: "test", generation: "test" };
  const parsed = parseDecoderConfig({ config: { ...SIZES, ...config }, generation: undefined, at });
  return listWeights(parsed, { tensors: new Map() }, copiesTiedOutput);
}

for (const [what, config] of [
  [
    "norms with biases and positions",
    { architectures: ["GPT2LMHeadModel"], n_embd: 64, n_layer: 2, n_head: 4, n_positions: 64 },
  ],
  [
    "norms of heads and behind branches",
    { architectures: ["Gemma3ForCausalLM"], hidden_activation: "gelu_pytorch_tanh" },
  ],
  [
    "experts and a shared one",
    { architectures: ["Qwen2MoeForCausalLM"], hidden_act: "silu", rms_norm_eps: 1e-6, ...EXPERTS },
  ],
] as const) {
  test(`nameTensors() puts a tensor in the place of each plan of ${what}`, () => {
    const list = listOf(config);
    const named = nameTensors<WeightPlan>(list, list.plans);
    assert.deepEqual(named, list.tree);
    assert.equal(new Set(list.plans).size, list.plans.length);
  });
}

test("listWeights() names the embedding once where the output is tied to it, or twice when asked", () => {
  const config = {
    architectures: ["LlamaForCausalLM"],
    hidden_act: "silu",
    rms_norm_eps: 1e-5,
    tie_word_embeddings: true,
  };
  const [tied, copied] = [listOf(config), listOf(config, true)];
  assert.equal(tied.tree.output.weight, tied.tree.embedding);
  assert.notEqual(copied.tree.output.weight, copied.tree.embedding);
  assert.equal(copied.plans.length, tied.plans.length + 1);
});

test("nameTensors() refuses fewer tensors than plans", () => {
  const list = listOf({ architectures: ["LlamaForCausalLM"], hidden_act: "silu", rms_norm_eps: 1e-5 });
  assert.throws(() => nameTensors(list, list.plans.slice(1)), /expected \d+ tensors, got \d+/);
});
