import assert from "node:assert/strict";
import { test } from "node:test";
import { CUDA_TYPE_BYTES } from "../../device/cuda/cuda-tensor.ts";
import type { StoredTensor } from "../../formats/tensors/tensor-source.ts";
import { parseDecoderConfig } from "../config/parse-decoder-config.ts";
import { describeWeights } from "../weights/weight-plan.ts";
import { planCudaWeights } from "./weights.ts";

const CONFIG = {
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
};
const PARSED = parseDecoderConfig({
  config: CONFIG,
  generation: undefined,
  at: { config: "test", generation: "test" },
});

function files(
  changes: Readonly<Record<string, Partial<StoredTensor>>> = {},
  parsed = PARSED,
): { tensors: Map<string, StoredTensor> } {
  const tensors = new Map<string, StoredTensor>();
  describeWeights(parsed.config, parsed.weights, "model.", (plan) => {
    for (const { name, shape } of plan.sources) {
      const byteLength = 2 * shape.reduce((product, size) => product * size, 1);
      tensors.set(name, { name, dtype: "BF16", shape, byteLength, ...changes[name] });
    }
  });
  return { tensors };
}

function typesOf(layerType: "bf16" | "e4m3"): Record<string, string> {
  const { placed } = planCudaWeights(PARSED, files(), "bf16", { layers: layerType });
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

test("planCudaWeights() makes codes of the output when asked, beside an embedding that it is tied to", () => {
  const { placed } = planCudaWeights(PARSED, files(), "bf16", { quantizesOutput: true });
  const coded = placed.filter(({ type }) => type === "e4m3").map(({ sources }) => sources[0]?.name);
  assert.deepEqual(coded, ["lm_head.weight"]);
  const tied = parseDecoderConfig({
    config: { ...CONFIG, tie_word_embeddings: true },
    generation: undefined,
    at: { config: "test", generation: "test" },
  });
  const { placed: both } = planCudaWeights(tied, files({}, tied), "bf16", { quantizesOutput: true });
  const embeddings = both.filter(({ sources }) => sources[0]?.name === "model.embed_tokens.weight");
  assert.deepEqual(
    embeddings.map(({ type }) => type),
    ["bf16", "e4m3"],
  );
  assert.throws(
    () => planCudaWeights(PARSED, files(), "f32", { quantizesOutput: true }),
    /an FP8 output matrix: expected bf16/,
  );
});

test("planCudaWeights() gives each row of codes room for its scale, and no two tensors the same place", () => {
  const { placed, numBytes } = planCudaWeights(PARSED, files(), "bf16", { layers: "e4m3", quantizesOutput: true });
  const spans = placed.flatMap(({ offset, scalesOffset, shape, type }) => {
    const size = CUDA_TYPE_BYTES[type] * shape.reduce((product, length) => product * length, 1);
    const own = [[offset, offset + size]];
    return scalesOffset === undefined ? own : [...own, [scalesOffset, scalesOffset + 4 * (shape[0] ?? 0)]];
  });
  spans.sort(([a = 0], [b = 0]) => a - b);
  for (const [i, [, end = 0]] of spans.entries()) assert.ok(end <= (spans[i + 1]?.[0] ?? numBytes));
});

const int4 = {
  int4: { groupSize: 64, hasZeros: false, hasInputScales: false },
  readInt4: noRead,
  readFloats: noRead,
};

function noRead(): Promise<never> {
  return Promise.reject(new Error("a plan reads nothing"));
}

function int4Names(layerType: "bf16" | "int4" | undefined, stored: readonly string[]): string[] {
  const blocks = Object.fromEntries(stored.map((name) => [name, { dtype: "Q4_0" } as const]));
  const source = { ...files(blocks), integers: new Map(stored.map((name) => [name, int4])) };
  const { placed } = planCudaWeights(PARSED, source, "bf16", { layers: layerType });
  return placed.flatMap(({ sources, type }) => (type === "int4" ? [sources[0]?.name.split(".").at(-2) ?? ""] : []));
}

test("planCudaWeights() keeps matrices of layers in INT4 where the files do, and rounds floats only when asked", () => {
  const down = "model.layers.0.mlp.down_proj.weight";
  assert.deepEqual(int4Names(undefined, [down, "lm_head.weight"]), ["down_proj"]);
  assert.deepEqual(int4Names("bf16", [down]), []);
  assert.deepEqual(int4Names("int4", []), ["q_proj", "o_proj", "gate_proj", "down_proj"]);
  const { int4Shapes } = planCudaWeights(PARSED, files(), "bf16", { layers: "int4" });
  assert.deepEqual(
    int4Shapes.map(({ outputs, inputs }) => [outputs, inputs]),
    [
      [128, 64],
      [64, 64],
      [256, 64],
      [64, 128],
    ],
  );
});

test("planCudaWeights() keeps what stands beside experts in the type of their rows, and gives each of their rows a scale", () => {
  const parsed = parseDecoderConfig({
    config: {
      ...CONFIG,
      architectures: ["Qwen2MoeForCausalLM"],
      num_experts: 4,
      num_experts_per_tok: 2,
      moe_intermediate_size: 64,
      shared_expert_intermediate_size: 64,
    },
    generation: undefined,
    at: { config: "test", generation: "test" },
  });
  const { placed } = planCudaWeights(parsed, files({}, parsed), "bf16", { layers: "e4m3" });
  const types = new Map(placed.map(({ sources, type }) => [sources[0]?.name.replace("model.layers.0.", ""), type]));
  assert.equal(types.get("self_attn.q_proj.weight"), "e4m3");
  for (const name of ["gate", "shared_expert_gate", "shared_expert.down_proj"])
    assert.equal(types.get(`mlp.${name}.weight`), "bf16", name);
  const experts = placed.filter(({ shape }) => shape.length === 3);
  assert.deepEqual(
    experts.map(({ type, isInterleaved }) => [type, isInterleaved]),
    [
      ["e4m3", true],
      ["e4m3", true],
    ],
  );
  const [opening, closing] = experts;
  // A scale for each row of 4 experts: 128 gate and up rows each. The rows of the two matrices follow in this order.
  assert.equal(closing?.scalesOffset, (opening?.scalesOffset ?? 0) + 4 * 4 * 128);
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
