import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { safetensorsBytes, type TensorDraft } from "../tensors/safetensors-writer.test-support.ts";
import type { TensorSource } from "../tensors/tensor-source.ts";
import { openTrtllmCheckpoint } from "./checkpoint.ts";
import { isTrtllmConfig, parseTrtllmConfig } from "./config.ts";

const HIDDEN = 8;
const HEADS = 4;
const KV_HEADS = 2;
const HEAD_DIM = 4;
const MLP = 12;
const VOCAB = 10;
const LAYERS = 2;

const CONFIG = {
  architecture: "LlamaForCausalLM",
  dtype: "float32",
  vocab_size: VOCAB,
  hidden_size: HIDDEN,
  intermediate_size: MLP,
  num_hidden_layers: LAYERS,
  num_attention_heads: HEADS,
  num_key_value_heads: KV_HEADS,
  head_size: HEAD_DIM,
  max_position_embeddings: 64,
  position_embedding_type: "rope_gpt_neox",
  hidden_act: "silu",
  norm_epsilon: 1e-6,
  rotary_base: 500_000,
  quantization: { quant_algo: null, kv_cache_quant_algo: null },
};

type Matrix = readonly (readonly number[])[];
let next = 0;
const matrix = (rows: number, columns: number): Matrix =>
  Array.from({ length: rows }, () => Array.from({ length: columns }, () => next++));

/** A Hugging Face model that is split into checkpoints as the converters do it. */
const HF: Readonly<Record<string, Matrix>> = {
  "model.embed_tokens.weight": matrix(VOCAB, HIDDEN),
  "model.norm.weight": matrix(HIDDEN, 1),
  "lm_head.weight": matrix(VOCAB, HIDDEN),
  ...Object.fromEntries(
    [0, 1].flatMap((i) => [
      [`model.layers.${i}.input_layernorm.weight`, matrix(HIDDEN, 1)],
      [`model.layers.${i}.post_attention_layernorm.weight`, matrix(HIDDEN, 1)],
      [`model.layers.${i}.self_attn.q_proj.weight`, matrix(HEADS * HEAD_DIM, HIDDEN)],
      [`model.layers.${i}.self_attn.k_proj.weight`, matrix(KV_HEADS * HEAD_DIM, HIDDEN)],
      [`model.layers.${i}.self_attn.v_proj.weight`, matrix(KV_HEADS * HEAD_DIM, HIDDEN)],
      [`model.layers.${i}.self_attn.q_proj.bias`, matrix(HEADS * HEAD_DIM, 1)],
      [`model.layers.${i}.self_attn.k_proj.bias`, matrix(KV_HEADS * HEAD_DIM, 1)],
      [`model.layers.${i}.self_attn.v_proj.bias`, matrix(KV_HEADS * HEAD_DIM, 1)],
      [`model.layers.${i}.self_attn.o_proj.weight`, matrix(HIDDEN, HEADS * HEAD_DIM)],
      [`model.layers.${i}.self_attn.o_proj.bias`, matrix(HIDDEN, 1)],
      [`model.layers.${i}.mlp.gate_proj.weight`, matrix(MLP, HIDDEN)],
      [`model.layers.${i}.mlp.up_proj.weight`, matrix(MLP, HIDDEN)],
      [`model.layers.${i}.mlp.down_proj.weight`, matrix(HIDDEN, MLP)],
    ]),
  ),
};
const hf = (name: string): Matrix => HF[name] ?? [];

const draft = (values: Matrix): TensorDraft => {
  const columns = values[0]?.length ?? 0;
  const shape = columns === 1 ? [values.length] : [values.length, columns];
  return { dtype: "F32", shape, data: Float32Array.from(values.flat()) };
};
const rowsFor = (values: Matrix, parts: number, part: number): Matrix =>
  values.slice((values.length / parts) * part, (values.length / parts) * (part + 1));
const columnsFor = (values: Matrix, parts: number, part: number): Matrix =>
  values.map((row) => row.slice((row.length / parts) * part, (row.length / parts) * (part + 1)));
const padded = (values: Matrix, rows: number): Matrix => [
  ...values,
  ...Array.from({ length: rows - values.length }, () => Array.from({ length: HIDDEN }, () => -1)),
];

interface Split {
  readonly tp: number;
  readonly pp: number;
  readonly embedding: "none" | "vocab" | "hidden";
}

function layerOfRank(layer: number, { tp }: Split, rank: number): Record<string, Matrix> {
  const at = `model.layers.${layer}`;
  const attention = `${at}.self_attn`;
  // With more ranks than key-value heads, neighbours share one.
  const kvParts = Math.min(tp, KV_HEADS);
  const kvPart = Math.floor((rank * kvParts) / tp);
  const qkv = (kind: string): Matrix => [
    ...rowsFor(hf(`${attention}.q_proj.${kind}`), tp, rank),
    ...rowsFor(hf(`${attention}.k_proj.${kind}`), kvParts, kvPart),
    ...rowsFor(hf(`${attention}.v_proj.${kind}`), kvParts, kvPart),
  ];
  return {
    "input_layernorm.weight": hf(`${at}.input_layernorm.weight`),
    "post_layernorm.weight": hf(`${at}.post_attention_layernorm.weight`),
    "attention.qkv.weight": qkv("weight"),
    "attention.qkv.bias": qkv("bias"),
    "attention.dense.weight": columnsFor(hf(`${attention}.o_proj.weight`), tp, rank),
    "attention.dense.bias": hf(`${attention}.o_proj.bias`),
    "mlp.fc.weight": rowsFor(hf(`${at}.mlp.gate_proj.weight`), tp, rank),
    "mlp.gate.weight": rowsFor(hf(`${at}.mlp.up_proj.weight`), tp, rank),
    "mlp.proj.weight": columnsFor(hf(`${at}.mlp.down_proj.weight`), tp, rank),
  };
}

function rankFile(split: Split, stage: number, rank: number): Record<string, TensorDraft> {
  const { tp, pp, embedding } = split;
  const paddedVocab = Math.ceil(VOCAB / tp) * tp;
  const table = hf("model.embed_tokens.weight");
  const tensors: Record<string, Matrix> = {};
  const tableOf = {
    none: table,
    vocab: rowsFor(padded(table, paddedVocab), tp, rank),
    hidden: columnsFor(table, tp, rank),
  };
  if (stage === 0) tensors["transformer.vocab_embedding.weight"] = tableOf[embedding];
  if (stage === pp - 1) {
    tensors["transformer.ln_f.weight"] = hf("model.norm.weight");
    tensors["lm_head.weight"] = rowsFor(padded(hf("lm_head.weight"), paddedVocab), tp, rank);
  }
  for (let i = 0; i < LAYERS / pp; i++) {
    const layer = layerOfRank(stage * (LAYERS / pp) + i, split, rank);
    for (const [name, values] of Object.entries(layer)) tensors[`transformer.layers.${i}.${name}`] = values;
  }
  return Object.fromEntries(Object.entries(tensors).map(([name, values]) => [name, draft(values)]));
}

async function withRanks(
  files: readonly Readonly<Record<string, TensorDraft>>[],
  use: (directory: string) => Promise<void>,
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "trtllm-"));
  try {
    for (const [i, tensors] of files.entries()) {
      await writeFile(join(directory, `rank${i}.safetensors`), safetensorsBytes(tensors));
    }
    await use(directory);
  } finally {
    await rm(directory, { recursive: true });
  }
}

async function readFloats(source: TensorSource, name: string): Promise<Float32Array> {
  const bytes = new Uint8Array(source.tensors.get(name)?.byteLength ?? 0);
  await source.read(name, bytes);
  return new Float32Array(bytes.buffer);
}

const configOf = ({ tp, pp, embedding }: Split): object => ({
  ...CONFIG,
  use_parallel_embedding: embedding !== "none",
  embedding_sharding_dim: embedding === "hidden" ? 1 : 0,
  mapping: { world_size: tp * pp, tp_size: tp, pp_size: pp },
});

const SPLITS: readonly Split[] = [
  { tp: 1, pp: 1, embedding: "none" },
  { tp: 2, pp: 1, embedding: "none" },
  { tp: 2, pp: 2, embedding: "vocab" },
  { tp: 4, pp: 1, embedding: "vocab" },
  { tp: 4, pp: 2, embedding: "hidden" },
];

for (const split of SPLITS) {
  const { tp, pp, embedding } = split;
  test(`openTrtllmCheckpoint() gives the model of Hugging Face: ${tp} by ${pp} ranks, embedding split: ${embedding}`, async () => {
    const files = Array.from({ length: tp * pp }, (_, i) => rankFile(split, Math.floor(i / tp), i % tp));
    await withRanks(files, async (directory) => {
      const source = await openTrtllmCheckpoint(directory, parseTrtllmConfig(configOf(split), "config.json"));
      assert.deepEqual([...source.tensors.keys()].sort(), Object.keys(HF).sort());
      for (const [name, values] of Object.entries(HF)) {
        assert.deepEqual([...(await readFloats(source, name))], values.flat(), name);
        assert.deepEqual(source.tensors.get(name)?.shape, draft(values).shape, name);
      }
      await source.close();
    });
  });
}

test("read() gives any range of what ranks hold in parts", async () => {
  const split: Split = { tp: 2, pp: 1, embedding: "hidden" };
  await withRanks([rankFile(split, 0, 0), rankFile(split, 0, 1)], async (directory) => {
    const source = await openTrtllmCheckpoint(directory, parseTrtllmConfig(configOf(split), "config.json"));
    for (const name of ["model.layers.1.mlp.down_proj.weight", "model.layers.0.self_attn.q_proj.weight"]) {
      const whole = new Uint8Array(Float32Array.from(hf(name).flat()).buffer);
      for (const [from, to] of [
        [0, whole.length],
        [5, 6],
        [32, 96],
        [30, 301],
      ] as const) {
        const piece = new Uint8Array(to - from);
        await source.read(name, piece, from);
        assert.deepEqual(piece, whole.slice(from, to));
      }
    }
    await source.close();
  });
});

/** Levels from -8 to 7, two rows to a byte: the even one in the low nibble. */
function nibbles(levels: Matrix): Int8Array {
  const [columns = 0] = [levels[0]?.length];
  return Int8Array.from({ length: (levels.length / 2) * columns }, (_, i) => {
    const [row, column] = [2 * Math.floor(i / columns), i % columns];
    return ((levels[row]?.[column] ?? 0) & 15) | ((levels[row + 1]?.[column] ?? 0) << 4);
  });
}

for (const hasInputScales of [false, true]) {
  test(`openTrtllmCheckpoint() unpacks AWQ ${hasInputScales ? "with" : "without"} scales of inputs`, async () => {
    const config = {
      ...CONFIG,
      num_hidden_layers: 1,
      hidden_size: 64,
      intermediate_size: 64,
      quantization: { quant_algo: "W4A16_AWQ", group_size: 32 },
    };
    const levels = Array.from({ length: 32 }, (_, row) =>
      Array.from({ length: 64 }, (__, column) => ((row * 7 + column * 3) % 16) - 8),
    );
    const scaleOf = (row: number, column: number): number => 1 + row / 64 + Math.floor(column / 32) / 128;
    const scales = Array.from({ length: 32 }, (_, row) => [scaleOf(row, 0), scaleOf(row, 32)]);
    const inputScales = Array.from({ length: 64 }, (_, i) => [2 ** (i % 3)]);
    const float = (rows: number, columns: number): TensorDraft => draft(matrix(rows, columns));
    const tensors: Record<string, TensorDraft> = {
      "transformer.vocab_embedding.weight": float(VOCAB, 64),
      "transformer.ln_f.weight": float(64, 1),
      "transformer.layers.0.input_layernorm.weight": float(64, 1),
      "transformer.layers.0.post_layernorm.weight": float(64, 1),
      "transformer.layers.0.attention.qkv.weight": { dtype: "I8", shape: [16, 64], data: nibbles(levels) },
      "transformer.layers.0.attention.qkv.weights_scaling_factor": draft(scales),
      "transformer.layers.0.attention.dense.weight": float(64, 16),
      "transformer.layers.0.mlp.fc.weight": float(64, 64),
      "transformer.layers.0.mlp.gate.weight": float(64, 64),
      "transformer.layers.0.mlp.proj.weight": float(64, 64),
    };
    if (hasInputScales) tensors["transformer.layers.0.attention.qkv.prequant_scaling_factor"] = draft(inputScales);
    await withRanks([tensors], async (directory) => {
      const source = await openTrtllmCheckpoint(directory, parseTrtllmConfig(config, "config.json"));
      const name = "model.layers.0.self_attn.k_proj.weight";
      assert.equal(source.tensors.get(name)?.dtype, hasInputScales ? "F32" : "Q4_0");
      assert.deepEqual(source.tensors.get(name)?.shape, [8, 64]);
      const bytes = new Uint8Array(source.tensors.get(name)?.byteLength ?? 0);
      await source.read(name, bytes);
      const actual = hasInputScales ? [...new Float32Array(bytes.buffer)] : decodeQ40(bytes);
      // Keys follow the 16 rows of queries.
      const expected = levels
        .slice(16, 24)
        .map((row, i) =>
          row.map((level, column) => level * scaleOf(16 + i, column) * (hasInputScales ? 2 ** (column % 3) : 1)),
        );
      assert.deepEqual(
        actual,
        expected.flat().map((value) => value + 0),
      );
      await source.close();
    });
  });
}

/** Scales here are from 1 to 2, so that FP16 is 1 + its lower ten bits / 1024. */
function decodeQ40(bytes: Uint8Array): number[] {
  const blocks = Array.from({ length: bytes.length / 18 }, (_, i) => bytes.subarray(i * 18, (i + 1) * 18));
  return blocks.flatMap((block) => {
    const scale = 1 + ((((block[1] ?? 0) << 8) | (block[0] ?? 0)) & 0x3ff) / 1024;
    return Array.from({ length: 32 }, (_, i) => {
      const byte = block[2 + (i % 16)] ?? 0;
      return ((i < 16 ? byte & 15 : byte >>> 4) - 8) * scale;
    });
  });
}

test("parseTrtllmConfig() says what config.json of Hugging Face would say", () => {
  const { model } = parseTrtllmConfig({ ...CONFIG, share_embedding_table: true }, "config.json");
  const expected = {
    architectures: ["LlamaForCausalLM"],
    vocab_size: VOCAB,
    hidden_size: HIDDEN,
    intermediate_size: MLP,
    num_hidden_layers: LAYERS,
    num_attention_heads: HEADS,
    num_key_value_heads: KV_HEADS,
    head_dim: HEAD_DIM,
    max_position_embeddings: 64,
    rms_norm_eps: 1e-6,
    rope_theta: 500_000,
    tie_word_embeddings: true,
    attention_bias: false,
    mlp_bias: false,
  };
  assert.deepEqual({ ...model, ...expected }, model);
});

test("isTrtllmConfig() tells the two kinds of config.json", () => {
  assert.equal(isTrtllmConfig(CONFIG), true);
  assert.equal(isTrtllmConfig({ architectures: ["LlamaForCausalLM"] }), false);
  assert.equal(isTrtllmConfig(null), false);
});

const REFUSED: readonly (readonly [changes: object, expected: RegExp])[] = [
  [{ architecture: "BertModel" }, /config\.json: architecture: expected the class name of a model .*, got "BertModel"/],
  [{ position_embedding_type: "alibi" }, /position_embedding_type: expected rope_gpt_neox or .*, got "alibi"/],
  [{ hidden_act: "relu" }, /hidden_act: expected silu or .*, got "relu"/],
  [{ qk_layernorm: true }, /qk_layernorm: expected false, got true/],
  [{ moe: { num_experts: 8, top_k: 2 } }, /moe: expected a model without experts/],
  [
    { quantization: { quant_algo: "NVFP4" } },
    /quantization: quant_algo: expected none or one of W4A16_AWQ.*, got "NVFP4"/,
  ],
  [{ mapping: { tp_size: 3 } }, /mapping: expected a tp_size that divides heads and MLP/],
  [{ mapping: { pp_size: 3 } }, /mapping: expected a pp_size that divides 2 layers/],
  [{ mapping: { tp_size: 1e9 } }, /tp_size: expected an integer from 1 to 4096/],
  [{ mapping: { cp_size: 2 } }, /cp_size: expected 1, got 2/],
  [{ hidden_size: 1e12 }, /hidden_size: expected an integer/],
];

for (const [changes, expected] of REFUSED) {
  test(`parseTrtllmConfig() refuses ${JSON.stringify(changes)}`, () => {
    assert.throws(() => parseTrtllmConfig({ ...CONFIG, ...changes }, "config.json"), expected);
  });
}

test("openTrtllmCheckpoint() names the rank's file or tensor that is missing or does not fit", async () => {
  const split: Split = { tp: 2, pp: 1, embedding: "none" };
  const config = parseTrtllmConfig(configOf(split), "config.json");
  await withRanks([rankFile(split, 0, 0)], async (directory) => {
    await assert.rejects(openTrtllmCheckpoint(directory, config), /rank1\.safetensors: expected a safetensors file/);
  });
  const name = "transformer.layers.0.mlp.proj.weight";
  const other = { ...rankFile(split, 0, 1), [name]: draft(matrix(HIDDEN, 5)) };
  await withRanks([rankFile(split, 0, 0), other], async (directory) => {
    await assert.rejects(
      openTrtllmCheckpoint(directory, config),
      /mlp\.proj\.weight": expected \[8, 6\] .*, got \[8, 5\]/,
    );
  });
});
