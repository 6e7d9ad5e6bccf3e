import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { type LlamaConfig, parseLlamaConfig, readLlamaConfig } from "./hf-config.ts";

const AT = { config: "config.json", generation: "generation_config.json" };
/** Llama-3.1-8B as published, without what is not read. */
const LLAMA_3_1 = {
  architectures: ["LlamaForCausalLM"],
  bos_token_id: 128000,
  eos_token_id: [128001, 128008, 128009],
  hidden_act: "silu",
  hidden_size: 4096,
  intermediate_size: 14336,
  max_position_embeddings: 131072,
  num_attention_heads: 32,
  num_hidden_layers: 32,
  num_key_value_heads: 8,
  rms_norm_eps: 1e-5,
  rope_scaling: {
    factor: 8.0,
    high_freq_factor: 4.0,
    low_freq_factor: 1.0,
    original_max_position_embeddings: 8192,
    rope_type: "llama3",
  },
  rope_theta: 500000.0,
  tie_word_embeddings: false,
  vocab_size: 128256,
};

const parse = (changes: object, generation?: unknown): LlamaConfig =>
  parseLlamaConfig({ ...LLAMA_3_1, ...changes }, generation, AT);

test("parseLlamaConfig() reads Llama 3.1", () => {
  assert.deepEqual(parse({}), {
    vocabSize: 128256,
    hiddenSize: 4096,
    intermediateSize: 14336,
    numLayers: 32,
    numHeads: 32,
    numKvHeads: 8,
    headDim: 128,
    maxPositions: 131072,
    rmsNormEpsilon: 1e-5,
    ropeTheta: 500000,
    ropeScaling: {
      kind: "llama3",
      factor: 8,
      lowFrequencyFactor: 1,
      highFrequencyFactor: 4,
      originalMaxPositions: 8192,
    },
    tieWordEmbeddings: false,
    attentionBias: false,
    mlpBias: false,
    bosTokenId: 128000,
    padTokenId: undefined,
    eosTokenIds: [128001, 128008, 128009],
  });
});

test("parseLlamaConfig() prefers the ids of generation_config.json", () => {
  assert.deepEqual(parse({}, { eos_token_id: 7, pad_token_id: 3 }).eosTokenIds, [7]);
  assert.equal(parse({}, { eos_token_id: 7, pad_token_id: 3 }).padTokenId, 3);
  assert.deepEqual(parse({}, {}).eosTokenIds, [128001, 128008, 128009]);
});

test("parseLlamaConfig() reads rope parameters in the old and the new spelling", () => {
  const linear = { kind: "linear", factor: 2 };
  assert.deepEqual(parse({ rope_scaling: { type: "linear", factor: 2 } }).ropeScaling, linear);
  const renamed = parse({ rope_parameters: { rope_type: "linear", factor: 2, rope_theta: 77 } });
  assert.deepEqual([renamed.ropeScaling, renamed.ropeTheta], [linear, 77]);
  assert.deepEqual(parse({ rope_scaling: null }).ropeScaling, { kind: "none" });
});

test("parseLlamaConfig() fills in what older files leave out", () => {
  const config = parse({ num_key_value_heads: undefined, rope_theta: undefined, rope_scaling: undefined });
  assert.deepEqual([config.numKvHeads, config.ropeTheta, config.rmsNormEpsilon], [32, 10000, 1e-5]);
});

const REFUSED: readonly (readonly [changes: object, expected: RegExp])[] = [
  [
    { architectures: ["BertModel"] },
    /config\.json: architectures: expected LlamaForCausalLM or .*, got \["BertModel"\]/,
  ],
  [{ architectures: undefined }, /architectures: .* got nothing/],
  [{ hidden_act: "gelu" }, /hidden_act: expected "silu", got "gelu"/],
  [{ quantization_config: { bits: 4 } }, /quantization_config/],
  [{ sliding_window: 4096 }, /sliding_window: expected none, got 4096/],
  [{ hidden_size: "4096" }, /hidden_size: expected an integer from 1 to .*, got "4096"/],
  [{ hidden_size: 4097 }, /hidden_size: expected a multiple of num_attention_heads, 32, got 4097/],
  [{ num_key_value_heads: 5 }, /num_key_value_heads: expected a divisor of 32, got 5/],
  [{ num_key_value_heads: 64 }, /num_key_value_heads: expected an integer from 1 to 32, got 64/],
  [{ num_hidden_layers: 5000 }, /num_hidden_layers/],
  [{ vocab_size: 2 ** 40 }, /vocab_size/],
  [{ head_dim: 127 }, /head_dim: expected an even number, got 127/],
  [{ rms_norm_eps: 0 }, /rms_norm_eps: expected a number above zero, got 0/],
  [{ rope_scaling: { rope_type: "yarn" } }, /config\.json: rope_scaling: rope_type: expected .*, got "yarn"/],
  [{ rope_scaling: { rope_type: "llama3", factor: 8 } }, /low_freq_factor: expected a number above zero, got nothing/],
  [{ rope_scaling: [] }, /rope_scaling: expected an object/],
  [{ tie_word_embeddings: 1 }, /tie_word_embeddings: expected true or false, got 1/],
  [{ eos_token_id: 128256 }, /eos_token_id: expected token ids from 0 to 128255, got 128256/],
];

for (const [changes, expected] of REFUSED) {
  test(`parseLlamaConfig() refuses ${JSON.stringify(changes)}`, () => {
    assert.throws(() => parse(changes), expected);
  });
}

test("readLlamaConfig() reads nereid-tiny into a frozen description", async () => {
  const directory = fileURLToPath(new URL("../../../examples/nereid-tiny/language_model/", import.meta.url));
  const config = await readLlamaConfig(directory);
  assert.deepEqual(
    [config.numLayers, config.headDim, config.tieWordEmbeddings, config.eosTokenIds],
    [6, 64, true, [2]],
  );
  assert.ok(Object.isFrozen(config));
});

test("readLlamaConfig() names the file that is missing", async () => {
  await assert.rejects(readLlamaConfig("/nowhere"), /\/nowhere\/config\.json: expected a file/);
});
