/** A model of given shapes with random weights that lie in no file: for measuring speed, which does not depend on them. */
import { numberToBf16 } from "../../server/src/core/bf16.ts";
import type { StoredInt4Matrix } from "../../server/src/formats/tensors/stored-int4.ts";
import type {
  IntegerTensor,
  Mxfp4Matrix,
  Mxfp4Tensor,
  StoredTensor,
  TensorSource,
} from "../../server/src/formats/tensors/tensor-source.ts";
import { type ParsedDecoder, parseDecoderConfig } from "../../server/src/models/config/parse-decoder-config.ts";
import { describeWeights, findPrefix } from "../../server/src/models/weights/weight-plan.ts";

export const LLAMA_8B: Readonly<Record<string, unknown>> = {
  architectures: ["LlamaForCausalLM"],
  model_type: "llama",
  vocab_size: 128256,
  hidden_size: 4096,
  intermediate_size: 14336,
  num_hidden_layers: 32,
  num_attention_heads: 32,
  num_key_value_heads: 8,
  head_dim: 128,
  hidden_act: "silu",
  max_position_embeddings: 131072,
  rms_norm_eps: 1e-5,
  rope_theta: 500000,
  rope_scaling: {
    factor: 8,
    high_freq_factor: 4,
    low_freq_factor: 1,
    original_max_position_embeddings: 8192,
    rope_type: "llama3",
  },
  tie_word_embeddings: false,
  bos_token_id: 128000,
  eos_token_id: 128001,
  torch_dtype: "bfloat16",
};

/** Shape of Qwen3-30B-A3B: 128 experts in each layer, 8 a token. */
const QWEN3_30B: Readonly<Record<string, unknown>> = {
  architectures: ["Qwen3MoeForCausalLM"],
  model_type: "qwen3_moe",
  vocab_size: 151936,
  hidden_size: 2048,
  intermediate_size: 6144,
  moe_intermediate_size: 768,
  num_hidden_layers: 48,
  num_attention_heads: 32,
  num_key_value_heads: 4,
  head_dim: 128,
  num_experts: 128,
  num_experts_per_tok: 8,
  norm_topk_prob: true,
  decoder_sparse_step: 1,
  mlp_only_layers: [],
  hidden_act: "silu",
  max_position_embeddings: 40960,
  rms_norm_eps: 1e-6,
  rope_theta: 1000000,
  tie_word_embeddings: false,
  bos_token_id: 151643,
  eos_token_id: 151645,
  torch_dtype: "bfloat16",
};

/** Shapes of gpt-oss-20b and 120b. */
const GPT_OSS: Readonly<Record<string, unknown>> = {
  architectures: ["GptOssForCausalLM"],
  model_type: "gpt_oss",
  vocab_size: 201088,
  hidden_size: 2880,
  intermediate_size: 2880,
  num_attention_heads: 64,
  num_key_value_heads: 8,
  head_dim: 64,
  num_experts_per_tok: 4,
  sliding_window: 128,
  max_position_embeddings: 131072,
  rms_norm_eps: 1e-5,
  rope_theta: 150000,
  rope_scaling: { rope_type: "yarn", factor: 32, original_max_position_embeddings: 4096, truncate: false },
  tie_word_embeddings: false,
  eos_token_id: 200002,
  torch_dtype: "bfloat16",
};

const CONFIGS: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  "llama-8b": LLAMA_8B,
  "qwen3-30b-a3b": QWEN3_30B,
  "gpt-oss-20b": { ...GPT_OSS, num_hidden_layers: 24, num_local_experts: 32 },
  "gpt-oss-120b": { ...GPT_OSS, num_hidden_layers: 36, num_local_experts: 128 },
};

/** @throws Error for a name that is not known */
export function syntheticConfig(name: string): Readonly<Record<string, unknown>> {
  const config = CONFIGS[name];
  if (config === undefined) throw new Error(`--model: expected ${Object.keys(CONFIGS).join(" or ")}, got ${name}`);
  return config;
}

const FOUR_BIT_GROUP = 128;
/** Inputs that share an exponent, and the byte of 2^0: OCP Microscaling Formats (MX) v1.0. */
const MXFP4_BLOCK = 32;
const E8M0_BIAS = 127;
/** Read again and again, so that filling costs a copy. Its length has no small factor in common with rows. */
const PATTERN_ELEMENTS = (8 << 20) + 331;

export function parseSynthetic(config: Readonly<Record<string, unknown>>): ParsedDecoder {
  return parseDecoderConfig({ config, generation: undefined, at: { config: "synthetic", generation: "synthetic" } });
}

export class SyntheticTensors implements TensorSource {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly integers: ReadonlyMap<string, IntegerTensor>;
  readonly mxfp4: ReadonlyMap<string, Mxfp4Tensor>;
  readonly #pattern: Uint8Array;
  readonly #ones: Uint8Array;

  /** Tensors are bf16, but for matrices of layers in INT4 (groups of 128, so that none has to be rounded) and experts in MXFP4. */
  constructor(
    { config, weights }: ParsedDecoder,
    stored: { readonly isFourBit?: boolean; readonly hasMxfp4Experts?: boolean } = {},
  ) {
    const integers = new Map<string, IntegerTensor>();
    const mxfp4 = new Map<string, Mxfp4Tensor>();
    const tensors = new Map<string, StoredTensor>();
    const names = stored.hasMxfp4Experts === true ? stackedNames(weights) : weights;
    describeWeights(
      config,
      names,
      findPrefix(names, () => false),
      (plan) => {
        for (const { name, shape } of plan.sources) {
          const byteLength = 2 * shape.reduce((product, size) => product * size, 1);
          tensors.set(name, { name, dtype: "BF16", shape, byteLength });
          const isMatrix = plan.kind === "matrix" && plan.shape.length === 2;
          if (stored.isFourBit === true && isMatrix) integers.set(name, fourBitTensor(shape));
          if (stored.hasMxfp4Experts === true && plan.kind === "matrix" && plan.shape.length === 3)
            mxfp4.set(name, mxfp4Tensor(shape));
        }
      },
    );
    this.tensors = tensors;
    this.integers = integers;
    this.mxfp4 = mxfp4;
    this.#pattern = randomBf16(PATTERN_ELEMENTS, 1 / Math.sqrt(config.hiddenSize));
    this.#ones = new Uint8Array(Uint16Array.from({ length: config.hiddenSize }, () => 0x3f80).buffer);
  }

  async read(name: string, into: Uint8Array, byteOffset = 0): Promise<void> {
    const isVector = this.tensors.get(name)?.shape.length === 1;
    const source = isVector ? this.#ones : this.#pattern;
    let from = (byteOffset + 2 * 7919 * name.length) % source.byteLength;
    for (let at = 0; at < into.byteLength; ) {
      const part = source.subarray(from, from + into.byteLength - at);
      into.set(part, at);
      at += part.byteLength;
      from = 0;
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** MXFP4 files hold the experts of a layer in one tensor. */
function stackedNames({ stackedExperts: experts, ...names }: ParsedDecoder["weights"]): ParsedDecoder["weights"] {
  if (experts === undefined) throw new Error("--mxfp4_experts: expected a model whose files stack experts, as gpt-oss");
  return { ...names, experts };
}

/** One of a shape serves all. */
const fourBitMatrices = new Map<string, StoredInt4Matrix>();

function fourBitTensor(shape: readonly number[]): IntegerTensor {
  return {
    int4: { groupSize: FOUR_BIT_GROUP, hasZeros: false, hasInputScales: false },
    readInt4: () => Promise.resolve(randomFourBits(shape)),
    readFloats: () => Promise.reject(new Error(`a matrix of ${shape.join(" x ")} has no groups of ${FOUR_BIT_GROUP}`)),
  };
}

function randomFourBits(shape: readonly number[]): StoredInt4Matrix {
  const [outputs = 0, inputs = 0] = shape;
  const known = fourBitMatrices.get(shape.join(" "));
  if (known !== undefined) return known;
  const codes = randomBf16((outputs * inputs) / 4, 1);
  const scales = new Float32Array((outputs * inputs) / FOUR_BIT_GROUP).fill(1 / (4 * Math.sqrt(inputs)));
  const matrix = { outputs, inputs, groupSize: FOUR_BIT_GROUP, codes, scales };
  fourBitMatrices.set(shape.join(" "), matrix);
  return matrix;
}

/** Experts of any shape; those of a layer share their codes. */
function mxfp4Tensor([, outputs = 0, inputs = 0]: readonly number[]): Mxfp4Tensor {
  const numBlocks = (outputs * inputs) / MXFP4_BLOCK;
  return { readExpert: () => Promise.resolve(randomMxfp4(numBlocks, -Math.ceil(Math.log2(Math.sqrt(inputs))))) };
}

/** Matrices of MXFP4 by number of blocks and exponent: one serves all experts. */
const mxfp4Matrices = new Map<string, Mxfp4Matrix>();

function randomMxfp4(numBlocks: number, exponent: number): Mxfp4Matrix {
  const key = `${numBlocks} ${exponent}`;
  const matrix = mxfp4Matrices.get(key) ?? {
    blocks: randomBf16((numBlocks * MXFP4_BLOCK) / 4, 1),
    exponents: new Uint8Array(numBlocks).fill(E8M0_BIAS + exponent),
  };
  mxfp4Matrices.set(key, matrix);
  return matrix;
}

/** Uniform with this standard deviation. */
function randomBf16(count: number, deviation: number): Uint8Array {
  const words = new Uint16Array(count);
  let state = 12345;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    words[i] = numberToBf16((state / 2 ** 31 - 1) * deviation * Math.sqrt(3));
  }
  return new Uint8Array(words.buffer);
}
