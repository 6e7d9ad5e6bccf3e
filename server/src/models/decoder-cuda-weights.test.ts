import assert from "node:assert/strict";
import { test } from "node:test";
import { CUDA_TYPE_BYTES } from "../device/cuda/cuda-tensor.ts";
import type { StoredTensor } from "../formats/tensor-source.ts";
import { planCudaWeights } from "./decoder-cuda-weights.ts";
import { parseDecoderConfig } from "./parse-decoder-config.ts";
import { describeWeights } from "./weight-plan.ts";

const PARSED = parseDecoderConfig({
  config: {
    architectures: ["Qwen2ForCausalLM"],
    hidden_act: "silu",
    rms_norm_eps: 1e-6,
    vocab_size: 96,
    hidden_size: 64,
    intermediate_size: 128,
    num_hidden_layers: 1,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    max_position_embeddings: 64,
    tie_word_embeddings: false,
  },
  generation: undefined,
  at: { config: "test", generation: "test" },
});

function files(changes: Readonly<Record<string, Partial<StoredTensor>>> = {}): { tensors: Map<string, StoredTensor> } {
  const tensors = new Map<string, StoredTensor>();
  describeWeights(PARSED.config, PARSED.weights, "model.", (plan) => {
    for (const { name, shape } of plan.sources) {
      const byteLength = 2 * shape.reduce((product, size) => product * size, 1);
      tensors.set(name, { name, dtype: "BF16", shape, byteLength, ...changes[name] });
    }
  });
  return { tensors };
}

function typesOf(layerType: "bf16" | "e4m3"): Record<string, string> {
  const { placed } = planCudaWeights(PARSED, files(), "bf16", layerType);
  return Object.fromEntries(placed.map(({ sources, type }) => [sources[0]?.name ?? "", type]));
}

test("planCudaWeights() keeps norms in f32, and matrices and their biases in the type asked for", () => {
  const types = typesOf("bf16");
  assert.equal(types["model.norm.weight"], "f32");
  assert.equal(types["model.layers.0.self_attn.q_proj.weight"], "bf16");
  assert.equal(types["model.layers.0.self_attn.q_proj.bias"], "bf16");
  assert.equal(types["lm_head.weight"], "bf16");
});

test("planCudaWeights() makes codes of the matrices of layers only", () => {
  const types = typesOf("e4m3");
  assert.deepEqual(
    Object.entries(types)
      .filter(([, type]) => type === "e4m3")
      .map(([name]) => name.replace("model.layers.0.", "")),
    ["self_attn.q_proj.weight", "self_attn.o_proj.weight", "mlp.gate_proj.weight", "mlp.down_proj.weight"],
  );
});

test("planCudaWeights() gives each row of codes room for its scale, and no two tensors the same place", () => {
  const { placed, numBytes } = planCudaWeights(PARSED, files(), "bf16", "e4m3");
  const spans = placed.flatMap(({ offset, scalesOffset, shape, type }) => {
    const size = CUDA_TYPE_BYTES[type] * shape.reduce((product, length) => product * length, 1);
    const own = [[offset, offset + size]];
    return scalesOffset === undefined ? own : [...own, [scalesOffset, scalesOffset + 4 * (shape[0] ?? 0)]];
  });
  spans.sort(([a = 0], [b = 0]) => a - b);
  for (const [i, [, end = 0]] of spans.entries()) assert.ok(end <= (spans[i + 1]?.[0] ?? numBytes));
});

test("planCudaWeights() names a tensor that is missing, of another shape or of another type", () => {
  const name = "model.layers.0.mlp.down_proj.weight";
  const without = files();
  without.tensors.delete(name);
  assert.throws(
    () => planCudaWeights(PARSED, without, "bf16"),
    /lack tensor "model.layers.0.mlp.down_proj.weight" \[64, 128\]/,
  );
  assert.throws(() => planCudaWeights(PARSED, files({ [name]: { shape: [1, 2] } }), "bf16"), /expected \[64, 128\]/);
  assert.throws(
    () => planCudaWeights(PARSED, files({ [name]: { dtype: "Q4_0" } }), "bf16"),
    /expected F32, F16 or BF16/,
  );
});
