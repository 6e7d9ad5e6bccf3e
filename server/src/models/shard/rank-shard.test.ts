import assert from "node:assert/strict";
import { test } from "node:test";
import type { StoredInt4Matrix } from "../../formats/tensors/stored-int4.ts";
import type { IntegerTensor, StoredTensor, TensorSource } from "../../formats/tensors/tensor-source.ts";
import { type ParsedDecoder, parseDecoderConfig } from "../config/parse-decoder-config.ts";
import { describeWeights } from "../weights/weight-plan.ts";
import { placeOf, type RankShard, shardDecoder, stageLayers } from "./rank-shard.ts";
import { ShardedTensors } from "./sharded-tensors.ts";

const LLAMA = {
  architectures: ["LlamaForCausalLM"],
  hidden_act: "silu",
  rms_norm_eps: 1e-5,
  vocab_size: 100,
  hidden_size: 16,
  intermediate_size: 24,
  num_hidden_layers: 3,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 4,
  max_position_embeddings: 64,
  attention_bias: true,
  mlp_bias: true,
};
const GPT2 = {
  architectures: ["GPT2LMHeadModel"],
  vocab_size: 100,
  n_embd: 16,
  n_head: 4,
  n_layer: 1,
  n_positions: 32,
  layer_norm_epsilon: 1e-5,
  activation_function: "gelu_new",
};
const MOE = {
  ...LLAMA,
  architectures: ["Qwen2MoeForCausalLM"],
  num_experts: 3,
  num_experts_per_tok: 2,
  moe_intermediate_size: 8,
  shared_expert_intermediate_size: 12,
};

function parse(config: object): ParsedDecoder {
  return parseDecoderConfig({ config, generation: undefined, at: { config: "test", generation: "test" } });
}

/** Every element of every tensor is another number. */
function filesOf({ config, weights }: ParsedDecoder): TensorSource & { values: ReadonlyMap<string, Float32Array> } {
  const tensors = new Map<string, StoredTensor>();
  const values = new Map<string, Float32Array>();
  let next = 0;
  describeWeights(config, weights, weights.prefixes[0] ?? "", ({ sources }) => {
    for (const { name, shape } of sources) {
      const count = shape.reduce((product, size) => product * size, 1);
      if (tensors.has(name)) continue;
      tensors.set(name, { name, dtype: "F32", shape, byteLength: 4 * count });
      values.set(
        name,
        Float32Array.from({ length: count }, () => next++),
      );
    }
  });
  return {
    tensors,
    values,
    read: async (name, into, byteOffset = 0) => {
      const bytes = new Uint8Array(values.get(name)?.buffer ?? new ArrayBuffer(0));
      into.set(bytes.subarray(byteOffset, byteOffset + into.byteLength));
    },
    close: async () => undefined,
  };
}

async function readAll(source: TensorSource, name: string, pieceBytes: number): Promise<Float32Array> {
  const { byteLength } = source.tensors.get(name) ?? { byteLength: 0 };
  const bytes = new Uint8Array(byteLength);
  for (let at = 0; at < byteLength; at += pieceBytes) {
    await source.read(name, bytes.subarray(at, Math.min(byteLength, at + pieceBytes)), at);
  }
  return new Float32Array(bytes.buffer);
}

function shardsOf(parsed: ParsedDecoder, files: TensorSource, numTensorRanks: number, numStages = 1): RankShard[] {
  return Array.from({ length: numTensorRanks * numStages }, (_, rank) =>
    shardDecoder(parsed, (name) => files.tensors.has(name), placeOf(rank, numTensorRanks, numStages)),
  );
}

/** On how many ranks each element is. */
async function countElements(files: TensorSource, shards: readonly RankShard[]): Promise<ReadonlyMap<number, number>> {
  const seen = new Map<number, number>();
  for (const { slices } of shards) {
    const own = new ShardedTensors(files, slices);
    for (const name of own.tensors.keys()) {
      if (slices.get(name)?.isZero === true) continue;
      for (const value of await readAll(own, name, 52)) seen.set(value, (seen.get(value) ?? 0) + 1);
    }
  }
  return seen;
}

for (const config of [LLAMA, GPT2, MOE]) {
  test(`every element of a ${config.architectures} is on some rank, and matrices on one alone`, async () => {
    const parsed = parse(config);
    const files = filesOf(parsed);
    const seen = await countElements(files, shardsOf(parsed, files, 2));
    const all = [...files.values].flatMap(([name, values]) => [...values].map((value) => ({ name, value })));
    assert.deepEqual(
      all.filter(({ value }) => !seen.has(value)),
      [],
    );
    const twice = new Set(all.filter(({ value }) => seen.get(value) === 2).map(({ name }) => name));
    for (const name of twice) assert.match(name, /norm|ln_|embed|wte|wpe|gate\.weight$/, name);
  });
}

test("a rank has its heads, its share of the inner width, and its rows of the vocabulary", async () => {
  const parsed = parse(LLAMA);
  const files = filesOf(parsed);
  const [, second] = shardsOf(parsed, files, 2);
  assert.ok(second !== undefined);
  const { config, outputRows } = second.parsed;
  assert.deepEqual([config.numHeads, config.numKvHeads, config.mlp.intermediateSize, outputRows], [2, 1, 12, 36]);
  assert.deepEqual(second.vocabulary, { first: 64, count: 36 });
  const own = new ShardedTensors(files, second.slices);
  const whole = (name: string): Float32Array => files.values.get(name) ?? new Float32Array();
  const at = "model.layers.1.";
  const queries = await readAll(own, `${at}self_attn.q_proj.weight`, 1000);
  assert.deepEqual(queries, whole(`${at}self_attn.q_proj.weight`).slice(8 * 16));
  const out = await readAll(own, `${at}self_attn.o_proj.weight`, 20);
  const rows = Array.from({ length: 16 }, (_, row) => [
    ...whole(`${at}self_attn.o_proj.weight`).slice(16 * row + 8, 16 * row + 16),
  ]);
  assert.deepEqual([...out], rows.flat());
  // A bias that all ranks would add is added once.
  assert.deepEqual(await readAll(own, `${at}self_attn.o_proj.bias`, 1000), new Float32Array(16));
  assert.deepEqual(await readAll(own, "lm_head.weight", 64), whole("lm_head.weight").slice(64 * 16));
});

test("ranks share key heads where these are fewer", async () => {
  const parsed = parse(LLAMA);
  const files = filesOf(parsed);
  const shards = shardsOf(parsed, files, 4);
  const keys = await Promise.all(
    shards.map(({ slices }) =>
      readAll(new ShardedTensors(files, slices), "model.layers.0.self_attn.k_proj.weight", 1000),
    ),
  );
  const whole = files.values.get("model.layers.0.self_attn.k_proj.weight");
  const [first, second] = [whole?.slice(0, 64), whole?.slice(64)];
  assert.deepEqual(keys, [first, first, second, second]);
});

test("stages hold runs of layers, those in front one more, under names that begin at 0", async () => {
  const place = (stage: number, numStages: number) => ({ tensorRank: 0, numTensorRanks: 1, stage, numStages });
  assert.deepEqual(
    [0, 1].map((stage) => stageLayers(3, place(stage, 2))),
    [
      { first: 0, count: 2 },
      { first: 2, count: 1 },
    ],
  );
  const parsed = parse(LLAMA);
  const files = filesOf(parsed);
  const [, second] = shardsOf(parsed, files, 1, 2);
  assert.ok(second !== undefined);
  assert.equal(second.parsed.config.numLayers, 1);
  const read = await readAll(new ShardedTensors(files, second.slices), "model.layers.0.mlp.down_proj.weight", 1000);
  assert.deepEqual(read, files.values.get("model.layers.2.mlp.down_proj.weight"));
});

test("shardDecoder() refuses what cannot be shared", () => {
  const refused = (changes: object, ranks: number, stages = 1): (() => unknown) => {
    const parsed = parse({ ...LLAMA, ...changes });
    return () => shardDecoder(parsed, () => false, placeOf(0, ranks, stages));
  };
  assert.throws(refused({}, 3), /num_attention_heads 4 cannot be shared by 3 GPUs/);
  const sinks = { ...LLAMA, architectures: ["GptOssForCausalLM"], num_local_experts: 4 };
  assert.throws(refused(sinks, 2), /attention sinks of heads 4 cannot be shared by 2 GPUs/);
  assert.throws(refused({ num_attention_heads: 12, num_key_value_heads: 3 }, 2), /num_key_value_heads 3/);
  assert.throws(refused({ intermediate_size: 25 }, 2), /intermediate_size 25/);
  assert.throws(refused({ vocab_size: 32 }, 2), /vocab_size 32/);
  assert.throws(refused({}, 1, 4), /3 layers are too few for 4 GPUs/);
});

/** 4 outputs of 8 inputs in groups of 4. */
const MATRIX: StoredInt4Matrix = {
  outputs: 4,
  inputs: 8,
  groupSize: 4,
  codes: Uint8Array.from({ length: 16 }, (_, i) => i),
  scales: Float32Array.from({ length: 8 }, (_, i) => i),
  zeros: Uint8Array.from({ length: 8 }, (_, i) => 8 + i),
  inputScales: Float32Array.from({ length: 8 }, (_, i) => 100 + i),
};

async function cut(axis: 0 | 1, first: number, count: number): Promise<IntegerTensor> {
  const integer: IntegerTensor = {
    int4: { groupSize: 4, hasZeros: true, hasInputScales: true },
    readInt4: async () => MATRIX,
    readFloats: async (row, numRows) => Float32Array.from({ length: 8 * numRows }, (_, i) => 8 * row + i),
  };
  const stored: StoredTensor = { name: "m", dtype: "F32", shape: [4, 8], byteLength: 128 };
  const files = { tensors: new Map([["m", stored]]), integers: new Map([["m", integer]]), read: async () => undefined };
  const source = { name: "m", shape: [4, 8], change: "none" } as const;
  const shape = axis === 0 ? [count, 8] : [4, count];
  const slices = new Map([["m", { source, shape, cut: { axis, ranges: [{ first, count }] } }]]);
  const part = new ShardedTensors({ ...files, close: async () => undefined }, slices).integers.get("m");
  assert.ok(part !== undefined);
  return part;
}

test("4-bit matrices are cut with their scales, zeros and scales of inputs", async () => {
  const rows = await cut(0, 1, 2);
  assert.deepEqual(await rows.readInt4(), {
    ...MATRIX,
    outputs: 2,
    codes: Uint8Array.of(4, 5, 6, 7, 8, 9, 10, 11),
    scales: Float32Array.of(2, 3, 4, 5),
    zeros: Uint8Array.of(10, 11, 12, 13),
  });
  assert.deepEqual(
    await rows.readFloats(1, 1),
    Float32Array.from({ length: 8 }, (_, i) => 16 + i),
  );
  const columns = await cut(1, 4, 4);
  assert.deepEqual(await columns.readInt4(), {
    ...MATRIX,
    inputs: 4,
    codes: Uint8Array.of(2, 3, 6, 7, 10, 11, 14, 15),
    scales: Float32Array.of(1, 3, 5, 7),
    zeros: Uint8Array.of(9, 11, 13, 15),
    inputScales: Float32Array.of(104, 105, 106, 107),
  });
  assert.deepEqual(await columns.readFloats(2, 1), Float32Array.of(20, 21, 22, 23));
});

test("4-bit matrices whose groups are cut become floats", async () => {
  assert.equal((await cut(1, 2, 4)).int4, undefined);
  assert.notEqual((await cut(1, 0, 4)).int4, undefined);
});
