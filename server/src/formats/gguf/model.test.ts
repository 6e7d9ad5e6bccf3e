import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { findGguf } from "./find-file.ts";
import { openGguf, readGgufSummary } from "./gguf.ts";
import {
  ARRAY,
  F32,
  type GgufField,
  type GgufTensorField,
  ggufBytes,
  STRING,
  U32,
} from "./gguf-writer.test-support.ts";
import { openGgufModel } from "./model.ts";

const HIDDEN = 64;
const HEADS = 4;
const KV_HEADS = 2;
const HEAD_DIM = 16;
const MLP = 96;
const VOCAB = 40;

const LLAMA: readonly GgufField[] = [
  ["general.architecture", STRING, "llama"],
  ["llama.context_length", U32, 256],
  ["llama.embedding_length", U32, HIDDEN],
  ["llama.block_count", U32, 1],
  ["llama.feed_forward_length", U32, MLP],
  ["llama.attention.head_count", U32, HEADS],
  ["llama.attention.head_count_kv", U32, KV_HEADS],
  ["llama.attention.layer_norm_rms_epsilon", F32, 2 ** -16],
  ["llama.rope.freq_base", F32, 500],
  ["llama.rope.dimension_count", U32, HEAD_DIM],
  ["tokenizer.ggml.model", STRING, "gpt2"],
  ["tokenizer.ggml.tokens", ARRAY, [STRING, Array.from({ length: VOCAB }, (_, i) => `t${i}`)]],
  ["tokenizer.ggml.bos_token_id", U32, 1],
  ["tokenizer.ggml.eos_token_id", U32, 2],
  ["tokenizer.ggml.eot_token_id", U32, 3],
];

/** Rows with distinct values: row r is r + seed / 100 throughout. */
function rowsOf(numRows: number, columns: number, seed: number): Float32Array {
  return Float32Array.from({ length: numRows * columns }, (_, i) => Math.floor(i / columns) + seed / 100);
}

/**
 * The permutation of the GGUF converters: reshape to [heads, 2, half, columns], then swap the middle two dimensions.
 */
function paired(values: Float32Array, numHeads: number, columns: number): Float32Array {
  const out = new Float32Array(values.length);
  const half = values.length / numHeads / columns / 2;
  for (let head = 0; head < numHeads; head++) {
    for (let side = 0; side < 2; side++) {
      for (let i = 0; i < half; i++) {
        const from = ((head * 2 + side) * half + i) * columns;
        out.set(values.subarray(from, from + columns), ((head * half + i) * 2 + side) * columns);
      }
    }
  }
  return out;
}

const tensorOf = (name: string, values: Float32Array, ...sizes: readonly number[]): GgufTensorField => ({
  name,
  sizes,
  type: 0,
  data: new Uint8Array(values.buffer),
});

const QUERY = rowsOf(HEADS * HEAD_DIM, HIDDEN, 1);
const KEY = rowsOf(KV_HEADS * HEAD_DIM, HIDDEN, 2);
const KEY_BIAS = rowsOf(KV_HEADS * HEAD_DIM, 1, 3);
const VALUE = rowsOf(KV_HEADS * HEAD_DIM, HIDDEN, 4);
const TENSORS: readonly GgufTensorField[] = [
  tensorOf("token_embd.weight", rowsOf(VOCAB, HIDDEN, 5), HIDDEN, VOCAB),
  tensorOf("output_norm.weight", rowsOf(HIDDEN, 1, 6), HIDDEN),
  tensorOf("blk.0.attn_q.weight", paired(QUERY, HEADS, HIDDEN), HIDDEN, HEADS * HEAD_DIM),
  tensorOf("blk.0.attn_k.weight", paired(KEY, KV_HEADS, HIDDEN), HIDDEN, KV_HEADS * HEAD_DIM),
  tensorOf("blk.0.attn_k.bias", paired(KEY_BIAS, KV_HEADS, 1), KV_HEADS * HEAD_DIM),
  tensorOf("blk.0.attn_v.weight", VALUE, HIDDEN, KV_HEADS * HEAD_DIM),
  tensorOf("blk.0.ffn_gate.weight", rowsOf(MLP, HIDDEN, 7), HIDDEN, MLP),
];

async function withFiles(
  files: Readonly<Record<string, Uint8Array>>,
  use: (directory: string) => Promise<void>,
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "gguf-"));
  try {
    for (const [name, bytes] of Object.entries(files)) await writeFile(join(directory, name), bytes);
    await use(directory);
  } finally {
    await rm(directory, { recursive: true });
  }
}

async function withModel(
  fields: readonly GgufField[],
  tensors: readonly GgufTensorField[],
  use: (path: string) => Promise<void>,
): Promise<void> {
  await withFiles({ "m.gguf": ggufBytes({ fields, tensors }) }, (directory) => use(join(directory, "m.gguf")));
}

const without = (key: string): readonly GgufField[] => LLAMA.filter(([name]) => name !== key);

test("openGgufModel() says what config.json would say", async () => {
  await withModel(LLAMA, TENSORS, async (path) => {
    const model = await openGgufModel(path);
    assert.deepEqual(model.config, {
      architectures: ["LlamaForCausalLM"],
      vocab_size: VOCAB,
      hidden_size: HIDDEN,
      intermediate_size: MLP,
      num_hidden_layers: 1,
      num_attention_heads: HEADS,
      num_key_value_heads: KV_HEADS,
      max_position_embeddings: 256,
      rope_theta: 500,
      rms_norm_eps: 2 ** -16,
      tie_word_embeddings: true,
      attention_bias: false,
      mlp_bias: false,
      bos_token_id: 1,
      eos_token_id: [2, 3],
    });
    assert.equal(model.metadata.get("tokenizer.ggml.model"), "gpt2");
    await model.close();
  });
});

test("openGgufModel() gives tensors Hugging Face's names, shapes and order of rows", async () => {
  await withModel(LLAMA, TENSORS, async (path) => {
    const model = await openGgufModel(path);
    const read = async (name: string): Promise<Float32Array> => {
      const bytes = new Uint8Array(model.tensors.get(name)?.byteLength ?? 0);
      await model.read(name, bytes);
      return new Float32Array(bytes.buffer);
    };
    assert.deepEqual(model.tensors.get("model.layers.0.mlp.gate_proj.weight")?.shape, [MLP, HIDDEN]);
    assert.deepEqual(await read("model.layers.0.self_attn.q_proj.weight"), QUERY);
    assert.deepEqual(await read("model.layers.0.self_attn.k_proj.weight"), KEY);
    assert.deepEqual(await read("model.layers.0.self_attn.k_proj.bias"), KEY_BIAS);
    assert.deepEqual(await read("model.layers.0.self_attn.v_proj.weight"), VALUE);
    assert.deepEqual(await read("model.embed_tokens.weight"), rowsOf(VOCAB, HIDDEN, 5));
    await assert.rejects(read("blk.0.attn_q.weight"), /no tensor "blk\.0\.attn_q\.weight"/);
    await model.close();
  });
});

test("read() gives any range of rows that the file holds in another order", async () => {
  await withModel(LLAMA, TENSORS, async (path) => {
    const model = await openGgufModel(path);
    const whole = new Uint8Array(QUERY.buffer);
    const name = "model.layers.0.self_attn.q_proj.weight";
    for (const [from, to] of [
      [0, 1],
      [255, 257],
      [1000, 5003],
      [4096, 8192],
      [whole.length - 7, whole.length],
    ] as const) {
      const piece = new Uint8Array(to - from);
      await model.read(name, piece, from);
      assert.deepEqual(piece, whole.slice(from, to));
    }
    await assert.rejects(model.read(name, new Uint8Array(2), whole.length - 1), /lie outside/);
    await model.close();
  });
});

test("openGgufModel() leaves the rows of architectures without pairs alone", async () => {
  const fields = LLAMA.map(([key, type, value]) => [key.replace("llama.", "qwen2."), type, value] as const);
  await withModel([["general.architecture", STRING, "qwen2"], ...fields.slice(1)], TENSORS, async (path) => {
    const model = await openGgufModel(path);
    const bytes = new Uint8Array(QUERY.byteLength);
    await model.read("model.layers.0.self_attn.q_proj.weight", bytes);
    assert.deepEqual(new Float32Array(bytes.buffer), paired(QUERY, HEADS, HIDDEN));
    assert.deepEqual(model.config.architectures, ["Qwen2ForCausalLM"]);
    await model.close();
  });
});

test("openGgufModel() slices the experts of a Mixtral", async () => {
  const experts = rowsOf(3 * MLP, HIDDEN, 8);
  const fields: readonly GgufField[] = [...LLAMA, ["llama.expert_count", U32, 3], ["llama.expert_used_count", U32, 2]];
  const tensors = [...TENSORS, tensorOf("blk.0.ffn_up_exps.weight", experts, HIDDEN, MLP, 3)];
  await withModel(fields, tensors, async (path) => {
    const model = await openGgufModel(path);
    const bytes = new Uint8Array(MLP * HIDDEN * 4);
    await model.read("model.layers.0.block_sparse_moe.experts.1.w3.weight", bytes);
    assert.deepEqual(new Float32Array(bytes.buffer), experts.slice(MLP * HIDDEN, 2 * MLP * HIDDEN));
    assert.deepEqual(model.config.architectures, ["MixtralForCausalLM"]);
    assert.deepEqual([model.config.num_local_experts, model.config.num_experts_per_tok], [3, 2]);
    await model.close();
  });
});

test("openGgufModel() refuses experts without end", async () => {
  const many = tensorOf("blk.0.ffn_up_exps.weight", new Float32Array(4097), 1, 1, 4097);
  await withModel(LLAMA, [...TENSORS, many], async (path) => {
    await assert.rejects(openGgufModel(path), /expected at most 4096 matrices, got \[4097, 1, 1\]/);
  });
});

/** Frequency factors of Llama 3.1, as the converters compute them. */
function llama3Factors(factor: number): Float32Array {
  return Float32Array.from({ length: HEAD_DIM / 2 }, (_, i) => {
    const wavelength = 2 * Math.PI * 500_000 ** ((2 * i) / HEAD_DIM);
    if (wavelength < 8192 / 4) return 1;
    if (wavelength > 8192) return factor;
    return 1 / ((1 - (8192 / wavelength - 1) / 3) / factor + (8192 / wavelength - 1) / 3);
  });
}

test("openGgufModel() knows the rope of Llama 3.1 by its factors, and refuses others", async () => {
  const theta: readonly GgufField[] = [...without("llama.rope.freq_base"), ["llama.rope.freq_base", F32, 500_000]];
  await withModel(theta, [...TENSORS, tensorOf("rope_freqs.weight", llama3Factors(8), 8)], async (path) => {
    const model = await openGgufModel(path);
    assert.deepEqual(model.config.rope_scaling, {
      rope_type: "llama3",
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 8192,
    });
    await model.close();
  });
  const others = tensorOf("rope_freqs.weight", Float32Array.of(3, 1, 4, 1, 5, 9, 2, 6), 8);
  await withModel(theta, [...TENSORS, others], async (path) => {
    await assert.rejects(openGgufModel(path), /rope_freqs\.weight: expected the 8 factors .*, got 3, 1, 4, 1/);
  });
});

test("openGgufModel() passes on linear scaling", async () => {
  const fields: readonly GgufField[] = [
    ...LLAMA,
    ["llama.rope.scaling.type", STRING, "linear"],
    ["llama.rope.scaling.factor", F32, 4],
  ];
  await withModel(fields, TENSORS, async (path) => {
    const model = await openGgufModel(path);
    assert.deepEqual(model.config.rope_scaling, { rope_type: "linear", factor: 4 });
    await model.close();
  });
});

const REFUSED: readonly (readonly [what: string, fields: readonly GgufField[], expected: RegExp])[] = [
  ["a file without an architecture", without("general.architecture"), /general\.architecture: expected a name, got no/],
  [
    "an architecture that it does not know",
    [["general.architecture", STRING, "mamba"], ...LLAMA.slice(1)],
    /general\.architecture: expected llama, qwen2, .*, got mamba/,
  ],
  [
    "experts that are chosen another way",
    [
      ["general.architecture", STRING, "glm4moe"],
      ["glm4moe.expert_count", U32, 8],
      ["glm4moe.expert_gating_func", U32, 1],
    ],
    /glm4moe\.expert_gating_func: expected 2, got 1/,
  ],
  [
    "layers of several widths",
    [...without("llama.feed_forward_length"), ["llama.feed_forward_length", ARRAY, [U32, [8, 9]]]],
    /same value for all layers, got 8, 9/,
  ],
  [
    "heads turned in part",
    [...without("llama.rope.dimension_count"), ["llama.rope.dimension_count", U32, 8]],
    /rope\.dimension_count: expected the head's 16, got 8/,
  ],
  [
    "keys without values' length",
    [...LLAMA, ["llama.attention.key_length", U32, 16]],
    /value_length: expected 16, got nothing/,
  ],
  [
    "heads of an odd number of rows",
    [...LLAMA.filter(([key]) => !/head_count$|dimension/.test(key)), ["llama.attention.head_count", U32, 3]],
    /expected heads of an even number/,
  ],
  [
    "projections of a part of a head",
    [...LLAMA.filter(([key]) => !/head_count$|dimension/.test(key)), ["llama.attention.head_count", U32, 1]],
    /expected whole heads of 64 rows, got 32/,
  ],
];

for (const [what, fields, expected] of REFUSED) {
  test(`openGgufModel() refuses ${what}`, async () => {
    await withModel(fields, TENSORS, (path) => assert.rejects(openGgufModel(path), expected));
  });
}

test("openGguf() reads a header longer than the first piece that it takes", async () => {
  const tokens = Array.from({ length: 120_000 }, (_, i) => `token ${i}`);
  await withModel([["tokens", ARRAY, [STRING, tokens]]], TENSORS, async (path) => {
    const file = await openGguf(path);
    const [first = 0] = new Float32Array(await readAll(file, "output_norm.weight"));
    assert.deepEqual(file.metadata.get("tokens"), tokens);
    assert.equal(first, Math.fround(0.06));
    await file.close();
  });
});

async function readAll(file: Awaited<ReturnType<typeof openGguf>>, name: string): Promise<ArrayBuffer> {
  const bytes = new Uint8Array(file.tensors.get(name)?.byteLength ?? 0);
  await file.read(name, bytes);
  return bytes.buffer;
}

test("openGguf() opens the files of a model in several", async () => {
  const split = (fields: readonly GgufField[], tensors: readonly GgufTensorField[]): Uint8Array =>
    ggufBytes({ fields: [...fields, ["split.count", U32, 2]], tensors });
  const files = {
    "m-00001-of-00002.gguf": split(LLAMA, TENSORS.slice(0, 3)),
    "m-00002-of-00002.gguf": split([], TENSORS.slice(3)),
  };
  await withFiles(files, async (directory) => {
    const file = await openGguf(join(directory, "m-00001-of-00002.gguf"));
    assert.equal(file.tensors.size, TENSORS.length);
    assert.deepEqual(new Float32Array(await readAll(file, "blk.0.attn_v.weight")), VALUE);
    await file.close();
    await assert.rejects(openGguf(join(directory, "m-00002-of-00002.gguf")), /expected the first of 2 files/);
  });
  await withFiles({ "m-00001-of-00002.gguf": files["m-00001-of-00002.gguf"] }, async (directory) => {
    const missing = /m-00001-of-00002\.gguf: expected 2 files, missing m-00002-of-00002\.gguf/;
    await assert.rejects(openGguf(join(directory, "m-00001-of-00002.gguf")), missing);
    await assert.rejects(readGgufSummary(join(directory, "m-00001-of-00002.gguf")), missing);
  });
  await withFiles({ "m-00002-of-00002.gguf": files["m-00002-of-00002.gguf"] }, async (directory) => {
    await assert.rejects(findGguf(directory), /expected m-00001-of-00002\.gguf, the first part, beside m-00002-of/);
  });
});

const MIXED: readonly (readonly [what: string, fields: readonly GgufField[], expected: RegExp])[] = [
  ["of another number of parts", [["split.count", U32, 3]], /m-00002-of-00002\.gguf: split\.count: expected 2, got 3/],
  [
    "that is another one",
    [["split.no", U32, 0]],
    /m-00002-of-00002\.gguf: split\.no: expected 1, got 0: is it a part of/,
  ],
  ["of more tensors", [["split.tensors.count", U32, 99]], /m-00002-.*split\.tensors\.count: expected \d+, got 99/],
  ["with tensors too few", [], /m-00001-of-00002\.gguf: split\.tensors\.count: expected \d+, got \d+/],
];
for (const [what, fields, expected] of MIXED) {
  test(`openGguf() refuses a part ${what}`, async () => {
    const isShort = fields.length === 0;
    const total: GgufField = ["split.tensors.count", U32, TENSORS.length];
    const part = (no: number, own: readonly GgufField[], tensors: readonly GgufTensorField[]): Uint8Array => {
      const all: readonly GgufField[] = [["split.no", U32, no], ["split.count", U32, 2], total, ...own];
      return ggufBytes({ fields: [...new Map(all.map((field) => [field[0], field])).values()], tensors });
    };
    const files = {
      "m-00001-of-00002.gguf": part(0, LLAMA, TENSORS.slice(0, 3)),
      "m-00002-of-00002.gguf": part(1, fields, TENSORS.slice(isShort ? 4 : 3)),
    };
    await withFiles(files, async (directory) => {
      const path = join(directory, "m-00001-of-00002.gguf");
      await assert.rejects(openGguf(path), expected);
      await assert.rejects(readGgufSummary(path), expected);
    });
  });
}
