import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { readHfConfig } from "../../formats/hf/config.ts";
import type { DecoderConfig } from "./decoder-config.ts";
import { parseDecoderConfig } from "./parse-decoder-config.ts";

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

const parse = (changes: object, generation?: unknown): DecoderConfig =>
  parseDecoderConfig({ config: { ...LLAMA_3_1, ...changes }, generation, at: AT }).config;

/** A small config of another architecture, with only the fields that its files have. */
const parseAs = (architecture: string, fields: object): DecoderConfig =>
  parseDecoderConfig({ config: { architectures: [architecture], ...fields }, generation: undefined, at: AT }).config;

test("what files of LLaVA leave out of their text is what Llama and Mistral have", () => {
  const llava = (text: object): DecoderConfig => parseAs("LlavaNextForConditionalGeneration", { text_config: text });
  const vicuna = llava({ model_type: "llama", vocab_size: 32064, max_position_embeddings: 4096, rms_norm_eps: 1e-5 });
  const { hiddenSize, mlp, numLayers, numHeads, numKvHeads, headDim, maxPositions, vocabSize } = vicuna;
  assert.deepEqual(
    {
      hiddenSize,
      intermediate: mlp.intermediateSize,
      numLayers,
      numHeads,
      numKvHeads,
      headDim,
      maxPositions,
      vocabSize,
    },
    {
      hiddenSize: 4096,
      intermediate: 11_008,
      numLayers: 32,
      numHeads: 32,
      numKvHeads: 32,
      headDim: 128,
      maxPositions: 4096,
      vocabSize: 32_064,
    },
  );
  const mistral = llava({ model_type: "mistral", vocab_size: 32064 });
  assert.deepEqual([mistral.mlp.intermediateSize, mistral.numKvHeads, mistral.maxPositions], [14_336, 8, 131_072]);
  assert.deepEqual(mistral.eosTokenIds, [2]);
  assert.throws(
    () => llava({ model_type: "qwen2" }),
    /text_config: model_type: expected llama or mistral, got "qwen2"/,
  );
});

test("a whole says whether its part shares the embedding with the output", () => {
  const qwen = (fields: object): boolean =>
    parseAs("Qwen2VLForConditionalGeneration", {
      text_config: { ...LLAMA_3_1, tie_word_embeddings: undefined },
      ...fields,
    }).tieWordEmbeddings;
  assert.deepEqual(
    [qwen({}), qwen({ tie_word_embeddings: true }), qwen({ tie_word_embeddings: false })],
    [false, true, false],
  );
});

test("parseDecoderConfig() reads Llama 3.1", () => {
  const scaling = {
    kind: "llama3",
    factor: 8,
    lowFrequencyFactor: 1,
    highFrequencyFactor: 4,
    originalMaxPositions: 8192,
  };
  assert.deepEqual(parse({}), {
    vocabSize: 128256,
    hiddenSize: 4096,
    numLayers: 32,
    numHeads: 32,
    numKvHeads: 8,
    headDim: 128,
    maxPositions: 131072,
    layers: Array.from({ length: 32 }, () => ({ window: undefined, rope: 0, mlp: "dense" })),
    ropes: [{ theta: 500000, numDims: 128, scaling }],
    experts: undefined,
    norm: { kind: "rms", epsilon: 1e-5, weightOffset: 0, hasBias: false },
    residual: "sequential",
    headNorm: undefined,
    latent: undefined,
    isCausal: true,
    hasChunks: false,
    numSegments: 0,
    recurrent: undefined,
    hasOutputGate: false,
    hasSinks: false,
    hasValueNorm: false,
    perLayerInputs: undefined,
    altUp: undefined,
    hasLayerScale: false,
    hasExpertsBeside: false,
    alibiScale: undefined,
    relativeBias: undefined,
    positionBuckets: undefined,
    sinusoids: undefined,
    audioStem: undefined,
    hasCrossAttention: false,
    temperature: undefined,
    qkvClip: undefined,
    hasEmbeddingNorm: false,
    residualScale: 1,
    logitScale: 1,
    attentionScale: 1 / Math.sqrt(128),
    attentionSoftCap: undefined,
    mlp: { isGated: true, activation: "silu", intermediateSize: 14336 },
    biases: { qkv: false, oProj: false, mlp: false, output: false, recurrent: false },
    embeddingScale: 1,
    logitSoftCap: undefined,
    tieWordEmbeddings: false,
    bosTokenId: 128000,
    padTokenId: undefined,
    startTokenIds: [],
    eosTokenIds: [128001, 128008, 128009],
  });
});

/** As published, without what is not read. */
const GPT2 = {
  activation_function: "gelu_new",
  layer_norm_epsilon: 1e-5,
  n_embd: 768,
  n_head: 12,
  n_layer: 12,
  n_positions: 1024,
  vocab_size: 50257,
  eos_token_id: 50256,
};

test("parseDecoderConfig() reads GPT-2 under its own names", () => {
  const config = parseAs("GPT2LMHeadModel", GPT2);
  assert.deepEqual([config.hiddenSize, config.numLayers, config.headDim, config.maxPositions], [768, 12, 64, 1024]);
  assert.deepEqual([config.ropes, config.layers[0]?.rope, config.tieWordEmbeddings], [[], undefined, true]);
  assert.deepEqual(config.norm, { kind: "layer", epsilon: 1e-5, weightOffset: 0, hasBias: true });
  assert.deepEqual(config.mlp, { isGated: false, activation: "gelu-tanh", intermediateSize: 3072 });
});

/** Gemma 3 4B: most fields are left to the defaults of its class. */
const GEMMA_3_4B = {
  eos_token_id: [1, 106],
  text_config: {
    hidden_size: 2560,
    intermediate_size: 10240,
    num_hidden_layers: 34,
    rope_scaling: { factor: 8.0, rope_type: "linear" },
    sliding_window: 1024,
  },
  torch_dtype: "bfloat16",
};

test("parseDecoderConfig() reads the text half of Gemma 3 with what its file leaves out", () => {
  const config = parseAs("Gemma3ForConditionalGeneration", GEMMA_3_4B);
  assert.deepEqual([config.vocabSize, config.numHeads, config.numKvHeads, config.headDim], [262208, 8, 4, 256]);
  assert.deepEqual(config.eosTokenIds, [1, 106]);
  assert.deepEqual(
    config.layers.slice(0, 7).map(({ window, rope }) => [window, rope]),
    [...Array.from({ length: 5 }, () => [1024, 1]), [undefined, 0], [1024, 1]],
  );
  assert.deepEqual(config.ropes, [
    { theta: 1e6, numDims: 256, scaling: { kind: "linear", factor: 8 } },
    { theta: 1e4, numDims: 256, scaling: { kind: "none" } },
  ]);
  assert.deepEqual([config.norm.weightOffset, config.headNorm?.scope, config.attentionScale], [1, "head", 1 / 16]);
  // The root of 2560 is 50.596; bf16 has 50.5 beside it.
  assert.equal(config.embeddingScale, 50.5);
});

const GEMMA_2_2B = {
  hidden_size: 2304,
  intermediate_size: 9216,
  num_hidden_layers: 26,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  head_dim: 256,
  vocab_size: 256000,
  max_position_embeddings: 8192,
  hidden_activation: "gelu_pytorch_tanh",
  attn_logit_softcapping: 50.0,
  final_logit_softcapping: 30.0,
  query_pre_attn_scalar: 256,
  sliding_window: 4096,
  rms_norm_eps: 1e-6,
};

test("parseDecoderConfig() alternates the windows of Gemma 2 and reads its caps", () => {
  const config = parseAs("Gemma2ForCausalLM", GEMMA_2_2B);
  assert.deepEqual(
    config.layers.slice(0, 3).map(({ window }) => window),
    [4096, undefined, 4096],
  );
  assert.deepEqual([config.attentionSoftCap, config.logitSoftCap, config.embeddingScale], [50, 30, 48]);
});

test("parseDecoderConfig() gives Qwen2 its window only where that is switched on", () => {
  const fields = { ...LLAMA_3_1, rope_scaling: null, num_hidden_layers: 3, sliding_window: 64, max_window_layers: 1 };
  const windows = (changes: object): unknown[] =>
    parseAs("Qwen2ForCausalLM", { ...fields, ...changes, architectures: ["Qwen2ForCausalLM"] }).layers.map(
      ({ window }) => window,
    );
  assert.deepEqual(windows({ use_sliding_window: false }), [undefined, undefined, undefined]);
  assert.deepEqual(windows({ use_sliding_window: true }), [undefined, 64, 64]);
  const layer_types = ["sliding_attention", "full_attention", "full_attention"];
  assert.deepEqual(windows({ layer_types }), [64, undefined, undefined]);
});

test("parseDecoderConfig() reads experts, and which layers have none", () => {
  const moe = {
    ...LLAMA_3_1,
    rope_scaling: null,
    architectures: ["Qwen3MoeForCausalLM"],
    num_hidden_layers: 4,
    num_experts: 128,
    num_experts_per_tok: 8,
    moe_intermediate_size: 768,
    norm_topk_prob: true,
    mlp_only_layers: [3],
    decoder_sparse_step: 2,
  };
  const config = parseAs("Qwen3MoeForCausalLM", moe);
  assert.deepEqual(config.experts, {
    numExperts: 128,
    numChosen: 8,
    intermediateSize: 768,
    isRenormalized: true,
    sharedIntermediateSize: 0,
  });
  assert.deepEqual(
    config.layers.map(({ mlp }) => mlp),
    ["dense", "experts", "dense", "dense"],
  );
});

test("parseDecoderConfig() reads the longrope of Phi-3 in its old spelling", () => {
  const numbers = (value: number): number[] => Array.from({ length: 64 }, () => value);
  const phi = {
    ...LLAMA_3_1,
    architectures: ["Phi3ForCausalLM"],
    rope_scaling: { type: "su", short_factor: numbers(1.5), long_factor: numbers(9) },
    original_max_position_embeddings: 4096,
  };
  const [rope] = parseAs("Phi3ForCausalLM", phi).ropes;
  assert.deepEqual(rope?.scaling, {
    kind: "longrope",
    shortFactors: numbers(1.5),
    longFactors: numbers(9),
    originalMaxPositions: 4096,
    magnitude: Math.sqrt(1 + Math.log(32) / Math.log(4096)),
  });
});

test("parseDecoderConfig() prefers the ids of generation_config.json", () => {
  assert.deepEqual(parse({}, { eos_token_id: 7, pad_token_id: 3 }).eosTokenIds, [7]);
  assert.equal(parse({}, { eos_token_id: 7, pad_token_id: 3 }).padTokenId, 3);
  assert.deepEqual(parse({}, {}).eosTokenIds, [128001, 128008, 128009]);
});

test("parseDecoderConfig() reads rope parameters in the old and the new spelling", () => {
  const linear = { kind: "linear", factor: 2 };
  assert.deepEqual(parse({ rope_scaling: { type: "linear", factor: 2 } }).ropes[0]?.scaling, linear);
  const renamed = parse({ rope_parameters: { rope_type: "linear", factor: 2, rope_theta: 77 } });
  assert.deepEqual([renamed.ropes[0]?.scaling, renamed.ropes[0]?.theta], [linear, 77]);
  assert.deepEqual(parse({ rope_scaling: null }).ropes[0]?.scaling, { kind: "none" });
});

test("parseDecoderConfig() fills in what older files leave out", () => {
  const config = parse({ num_key_value_heads: undefined, rope_theta: undefined, rope_scaling: undefined });
  assert.deepEqual([config.numKvHeads, config.ropes[0]?.theta, config.norm.epsilon], [32, 10000, 1e-5]);
});

const REFUSED: readonly (readonly [changes: object, expected: RegExp])[] = [
  [
    { architectures: ["BertModel"] },
    /config\.json: architectures: expected one of LlamaForCausalLM, .*the llama\.cpp engine serves, got \["BertModel"\]/,
  ],
  [{ architectures: undefined }, /architectures: .* got nothing/],
  [{ hidden_act: "relu" }, /hidden_act: expected one of silu, .*, got "relu"/],
  [{ quantization_config: { bits: 4 } }, /quantization_config/],
  [{ sliding_window: 0 }, /sliding_window: expected an integer from 1 to .*, got 0/],
  [
    { layer_types: ["full_attention"] },
    /layer_types: expected 32 times "full_attention" or .*, got \["full_attention"\]/,
  ],
  [{ partial_rotary_factor: 0.29 }, /partial_rotary_factor: expected an even part of a head of 128, got 0.29/],
  [
    { rope_scaling: { rope_type: "longrope", short_factor: [1], long_factor: [1] } },
    /short_factor: expected 64 numbers above zero, got \[1\]/,
  ],
  [{ hidden_size: "4096" }, /hidden_size: expected an integer from 1 to .*, got "4096"/],
  [{ hidden_size: 4097 }, /hidden_size: expected a multiple of num_attention_heads, 32, got 4097/],
  [{ num_key_value_heads: 5 }, /num_key_value_heads: expected a divisor of 32, got 5/],
  [{ num_key_value_heads: 64 }, /num_key_value_heads: expected an integer from 1 to 32, got 64/],
  [{ num_hidden_layers: 5000 }, /num_hidden_layers/],
  [{ vocab_size: 2 ** 40 }, /vocab_size/],
  [{ head_dim: 127 }, /head_dim: expected an even number, got 127/],
  [{ rms_norm_eps: 0 }, /rms_norm_eps: expected a number above zero, got 0/],
  [{ rope_scaling: { rope_type: "dynamic" } }, /config\.json: rope_scaling: rope_type: expected .*, got "dynamic"/],
  [{ rope_scaling: { rope_type: "llama3", factor: 8 } }, /low_freq_factor: expected a number above zero, got nothing/],
  [{ rope_scaling: [] }, /rope_scaling: expected an object/],
  [{ tie_word_embeddings: 1 }, /tie_word_embeddings: expected true or false, got 1/],
  [{ eos_token_id: 128256 }, /eos_token_id: expected token ids from 0 to 128255, got 128256/],
];

for (const [changes, expected] of REFUSED) {
  test(`parseDecoderConfig() refuses ${JSON.stringify(changes)}`, () => {
    assert.throws(() => parse(changes), expected);
  });
}

const REFUSED_OF_OTHERS: readonly (readonly [architecture: string, fields: object, expected: RegExp])[] = [
  ["GPT2LMHeadModel", { ...GPT2, n_embd: 0 }, /config\.json: n_embd: expected an integer from 1/],
  ["GPT2LMHeadModel", { ...GPT2, add_cross_attention: true }, /add_cross_attention: expected false, got true/],
  ["Gemma3ForConditionalGeneration", {}, /config\.json: text_config: expected an object, got nothing/],
  [
    "MixtralForCausalLM",
    { ...LLAMA_3_1, architectures: ["MixtralForCausalLM"] },
    /num_local_experts: expected an integer/,
  ],
];

for (const [architecture, fields, expected] of REFUSED_OF_OTHERS) {
  test(`parseDecoderConfig() refuses what ${architecture} cannot be: ${expected.source}`, () => {
    assert.throws(() => parseAs(architecture, fields), expected);
  });
}

test("parseDecoderConfig() ends sequences of Phi-3.5-MoE where LongRoPE has other factors", () => {
  const factors = Array.from({ length: 64 }, () => 1);
  const rope_scaling = {
    ...{ rope_type: "longrope", short_mscale: 1.2, long_mscale: 1.3, original_max_position_embeddings: 4096 },
    ...{ short_factor: factors, long_factor: factors },
  };
  const { rms_norm_eps: _, ...fields } = { ...LLAMA_3_1, num_local_experts: 4, rope_scaling };
  assert.equal(parseAs("PhimoeForCausalLM", { ...fields, architectures: ["PhimoeForCausalLM"] }).maxPositions, 4096);
  assert.equal(parse({ rope_scaling }).maxPositions, 131072);
});

test("parseDecoderConfig() reads nereid-tiny into a frozen description", async () => {
  const directory = fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model/", import.meta.url));
  const { config } = parseDecoderConfig(await readHfConfig(directory));
  assert.deepEqual(
    [config.numLayers, config.headDim, config.tieWordEmbeddings, config.eosTokenIds],
    [6, 64, true, [2]],
  );
  assert.ok(Object.isFrozen(config));
});

test("readHfConfig() names the file that is missing", async () => {
  await assert.rejects(readHfConfig("/nowhere"), /\/nowhere\/config\.json: expected a file/);
});
