import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { maxDifference, randomFloats } from "../../kernels/testing/run-op.ts";
import { createLlamaCpuRunner } from "../engine/llama-cpu-runner.ts";
import { contiguousBlocks, stepOf, TestSequence } from "../engine/testing-sequences.ts";
import { type LlamaConfig, parseLlamaConfig } from "../formats/hf-config.ts";
import { llamaRef } from "./llama.ref.ts";

const BASE = {
  architectures: ["LlamaForCausalLM"],
  vocab_size: 50,
  hidden_size: 48,
  intermediate_size: 72,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 16,
  max_position_embeddings: 256,
  rms_norm_eps: 1e-5,
};
const LLAMA3_ROPE = {
  rope_type: "llama3",
  factor: 4,
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 64,
};

type Shapes = readonly (readonly [name: string, shape: readonly number[]])[];

function shapesOf(config: LlamaConfig): Shapes {
  const { hiddenSize: hidden, intermediateSize: mlp, vocabSize, numLayers, numHeads, numKvHeads, headDim } = config;
  const layer = (at: string): Shapes => {
    const projections = [
      [`${at}.self_attn.q_proj`, [numHeads * headDim, hidden], config.attentionBias],
      [`${at}.self_attn.k_proj`, [numKvHeads * headDim, hidden], config.attentionBias],
      [`${at}.self_attn.v_proj`, [numKvHeads * headDim, hidden], config.attentionBias],
      [`${at}.self_attn.o_proj`, [hidden, numHeads * headDim], config.attentionBias],
      [`${at}.mlp.gate_proj`, [mlp, hidden], config.mlpBias],
      [`${at}.mlp.up_proj`, [mlp, hidden], config.mlpBias],
      [`${at}.mlp.down_proj`, [hidden, mlp], config.mlpBias],
    ] as const;
    return [
      [`${at}.input_layernorm.weight`, [hidden]],
      [`${at}.post_attention_layernorm.weight`, [hidden]],
      ...projections.map(([name, shape]) => [`${name}.weight`, shape] as const),
      ...projections.filter(([, , biased]) => biased).map(([name, [rows]]) => [`${name}.bias`, [rows]] as const),
    ];
  };
  return [
    ["model.embed_tokens.weight", [vocabSize, hidden]],
    ["model.norm.weight", [hidden]],
    ...(config.tieWordEmbeddings ? [] : [["lm_head.weight", [vocabSize, hidden]] as const]),
    ...Array.from({ length: numLayers }, (_, i) => layer(`model.layers.${i}`)).flat(),
  ];
}

async function writeModel(directory: string, json: object, shapes: Shapes): Promise<Map<string, Float32Array>> {
  const tensors = new Map<string, Float32Array>();
  const header: Record<string, object> = {};
  let end = 0;
  for (const [i, [name, shape]] of shapes.entries()) {
    const values = randomFloats(
      shape.reduce((a, b) => a * b, 1),
      i + 1,
    ).map((value) => value * 0.6);
    tensors.set(name, values);
    header[name] = { dtype: "F32", shape, data_offsets: [end, end + values.byteLength] };
    end += values.byteLength;
  }
  const text = Buffer.from(JSON.stringify(header));
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(text.byteLength));
  const data = [...tensors.values()].map(({ buffer }) => Buffer.from(buffer));
  await writeFile(join(directory, "model.safetensors"), Buffer.concat([prefix, text, ...data]));
  await writeFile(join(directory, "config.json"), JSON.stringify(json));
  return tensors;
}

const VARIANTS: readonly (readonly [name: string, changes: object])[] = [
  ["tied embeddings and grouped heads", { tie_word_embeddings: true }],
  ["an output projection of its own", {}],
  ["biases everywhere", { attention_bias: true, mlp_bias: true }],
  ["as many KV heads as heads", { num_key_value_heads: 4 }],
  ["llama3 rope scaling", { rope_scaling: LLAMA3_ROPE, rope_theta: 500 }],
  ["linear rope scaling", { rope_scaling: { type: "linear", factor: 2 } }],
];

for (const [name, changes] of VARIANTS) {
  test(`recordLlama() agrees with the reference for ${name}`, async () => {
    const directory = await mkdtemp(join(tmpdir(), "llama-"));
    try {
      const json = { ...BASE, ...changes };
      const config = parseLlamaConfig(json, undefined, { config: "config.json", generation: "" });
      const tensors = await writeModel(directory, json, shapesOf(config));
      const runner = await createLlamaCpuRunner({ modelDir: directory, numBlocks: 16, blockSize: 16, numThreads: 2 });
      const tokens = Array.from({ length: 90 }, (_, i) => (i * 17 + 3) % 50);
      const step = stepOf(runner, [{ sequence: new TestSequence(contiguousBlocks(3, 6)), tokens }]);
      const actual = await runner.run({ ...step, logitRows: Int32Array.from(tokens.keys()) });
      const difference = maxDifference(actual, llamaRef(config, tensors, Int32Array.from(tokens)));
      await runner.close();
      assert.ok(difference < 2e-3, `logits are off by ${difference}`);
    } finally {
      await rm(directory, { recursive: true });
    }
  });
}

test("createLlamaCpuRunner() names a tensor whose shape is not the config's", async () => {
  const directory = await mkdtemp(join(tmpdir(), "llama-"));
  try {
    const config = parseLlamaConfig(BASE, undefined, { config: "config.json", generation: "" });
    await writeModel(directory, { ...BASE, intermediate_size: 64 }, shapesOf(config));
    const creating = createLlamaCpuRunner({ modelDir: directory, numBlocks: 1, blockSize: 16, numThreads: 1 });
    await assert.rejects(
      creating,
      /"model\.layers\.0\.mlp\.gate_proj\.weight": expected \[64, 48\] .*, got \[72, 48\]/,
    );
  } finally {
    await rm(directory, { recursive: true });
  }
});

test("createLlamaCpuRunner() names a tensor that is missing", async () => {
  const directory = await mkdtemp(join(tmpdir(), "llama-"));
  try {
    const config = parseLlamaConfig(BASE, undefined, { config: "config.json", generation: "" });
    await writeModel(directory, { ...BASE, attention_bias: true }, shapesOf(config));
    const creating = createLlamaCpuRunner({ modelDir: directory, numBlocks: 1, blockSize: 16, numThreads: 1 });
    await assert.rejects(creating, /the weights lack tensor "model\.layers\.0\.self_attn\.q_proj\.bias" \[64\]/);
  } finally {
    await rm(directory, { recursive: true });
  }
});
