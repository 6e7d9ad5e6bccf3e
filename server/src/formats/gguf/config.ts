/**
 * Converts GGUF metadata of a decoder to the fields of Hugging Face's `config.json`, so that one parser validates both.
 * Source: ggml/docs/gguf.md, "Standardized key-value pairs". It reads no tensor data; the caller passes values that
 * exist only in a tensor.
 */
import type { GgufArchitecture } from "./architecture.ts";
import { GGUF_ARCHITECTURES } from "./architectures.ts";
import type { GgufHeader, GgufScalar, GgufValue } from "./header.ts";

type Header = Pick<GgufHeader, "metadata" | "tensors">;

/** Llama 3.1 and later: the files hold factors derived from these parameters. */
const LLAMA3_ROPE = { low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 } as const;
/** The factors are FP32 and were computed in another order, so compare with a tolerance. */
const FACTOR_TOLERANCE = 1e-3;

export interface GgufRope {
  /** Contents of `rope_freqs.weight`: divisors of the RoPE frequencies. Undefined when the file has none. */
  readonly factors: Float32Array | undefined;
  /** Divisors of sequences up to the original length, and of longer ones (LongRoPE); undefined: none. */
  readonly short?: Float32Array | undefined;
  readonly long?: Float32Array | undefined;
}

/** @throws Error naming file and key */
export function ggufToHfConfig(header: Header, rope: GgufRope, file: string): Readonly<Record<string, unknown>> {
  const keys = new GgufKeys(header.metadata, file);
  const architecture = keys.architecture();
  const names = GGUF_ARCHITECTURES.get(architecture);
  if (names === undefined) {
    throw keys.refusal("general.architecture", [...GGUF_ARCHITECTURES.keys()].join(", "), architecture);
  }
  const numExperts = keys.own("expert_count") ?? 0;
  const name = numExperts === 0 ? names.dense : names.experts;
  if (name === undefined) throw keys.refusal(`${architecture}.expert_count`, "0", numExperts);
  for (const [key, expected] of Object.entries(names.requires ?? {})) {
    const value = keys.own(key) ?? expected;
    if (value !== expected) throw keys.refusal(`${architecture}.${key}`, String(expected), value);
  }
  const unread = names.unread?.find((tensor) => header.tensors.has(`blk.0.${tensor}`));
  if (unread !== undefined) throw keys.refusal(`blk.0.${unread}`, "no such tensor", "one");
  return withoutUndefined({
    architectures: [name],
    ...sizesOf(header, keys),
    ...ropeOf(keys, rope),
    ...epsilonOf(keys, name),
    sliding_window: keys.own("attention.sliding_window") || undefined, // 0: none
    tie_word_embeddings: !header.tensors.has("output.weight"),
    attention_bias: header.tensors.has("blk.0.attn_q.bias"),
    mlp_bias: header.tensors.has("blk.0.ffn_up.bias"),
    num_local_experts: numExperts === 0 ? undefined : numExperts,
    num_experts_per_tok: keys.own("expert_used_count"),
    bos_token_id: keys.get("tokenizer.ggml.bos_token_id"),
    eos_token_id: eosIds(keys),
    pad_token_id: keys.get("tokenizer.ggml.padding_token_id"),
    ...names.fields?.(
      (key) => keys.own(key),
      (tensor) => header.tensors.has(`blk.0.${tensor}`),
    ),
    norm_weights_are_whole: names.hasWholeNorms,
  });
}

/** Names and order of rows of the file's architecture. */
export function ggufArchitectureOf({ metadata }: Header): GgufArchitecture | undefined {
  return GGUF_ARCHITECTURES.get(String(metadata.get("general.architecture")));
}

/** Classes with layer norms, by the name that each gives its epsilon. */
const LAYER_NORM_EPSILON: ReadonlyMap<string, string> = new Map([
  ["CohereForCausalLM", "layer_norm_eps"],
  ["Cohere2ForCausalLM", "layer_norm_eps"],
  ["Jais2ForCausalLM", "layer_norm_eps"],
  ["NemotronForCausalLM", "norm_eps"],
  ["StableLmForCausalLM", "layer_norm_eps"],
  ["Starcoder2ForCausalLM", "norm_epsilon"],
]);

function epsilonOf(keys: GgufKeys, className: string): Record<string, unknown> {
  const field = LAYER_NORM_EPSILON.get(className);
  if (field === undefined) return { rms_norm_eps: keys.own("attention.layer_norm_rms_epsilon") };
  return { [field]: keys.own("attention.layer_norm_epsilon") };
}

class GgufKeys {
  readonly #metadata: ReadonlyMap<string, GgufValue>;
  readonly #file: string;

  constructor(metadata: ReadonlyMap<string, GgufValue>, file: string) {
    this.#metadata = metadata;
    this.#file = file;
  }

  architecture(): string {
    const value = this.get("general.architecture");
    if (typeof value === "string") return value;
    throw this.refusal("general.architecture", "a name", value);
  }

  /** A key with the prefix of the architecture. */
  own(key: string): GgufScalar | undefined {
    return this.get(`${this.architecture()}.${key}`);
  }

  /** Undefined when absent. A list has a value for each layer; a list of equal values counts as one value. */
  get(key: string): GgufScalar | undefined {
    const value = this.#metadata.get(key);
    if (typeof value !== "object") return value;
    const [first] = value;
    if (value.every((item) => item === first)) return first;
    throw this.refusal(key, "the same value for all layers", value.slice(0, 8).join(", "));
  }

  refusal(key: string, expected: string, got: unknown): Error {
    const shown = got === undefined ? "nothing" : String(got).slice(0, 80);
    return new Error(`${this.#file}: ${key}: expected ${expected}, got ${shown}`);
  }
}

function sizesOf({ tensors }: Header, keys: GgufKeys): Record<string, unknown> {
  const numHeads = keys.own("attention.head_count");
  const headDim = headDimOf(keys);
  return {
    vocab_size: tensors.get("token_embd.weight")?.shape[0],
    hidden_size: keys.own("embedding_length"),
    intermediate_size: keys.own("feed_forward_length"),
    num_hidden_layers: keys.own("block_count"),
    num_attention_heads: numHeads,
    num_key_value_heads: keys.own("attention.head_count_kv") ?? numHeads,
    head_dim: headDim,
    max_position_embeddings: keys.own("context_length"),
  };
}

function headDimOf(keys: GgufKeys): GgufScalar | undefined {
  const keyLength = keys.own("attention.key_length");
  const valueLength = keys.own("attention.value_length");
  if (keyLength !== valueLength) throw keys.refusal("attention.value_length", String(keyLength), valueLength);
  return keyLength;
}

function sizeOf(keys: GgufKeys, key: string): number {
  const value = keys.own(key);
  if (typeof value !== "number") throw keys.refusal(key, "a number", value);
  return value;
}

function ropeOf(keys: GgufKeys, { factors, ...long }: GgufRope): Record<string, unknown> {
  const theta = keys.own("rope.freq_base") ?? 10_000;
  const headDim = headDimOf(keys) ?? sizeOf(keys, "embedding_length") / sizeOf(keys, "attention.head_count");
  const turned = keys.own("rope.dimension_count") ?? headDim;
  const isPartial = GGUF_ARCHITECTURES.get(keys.architecture())?.hasPartialRotary === true;
  if (turned !== headDim && !isPartial) throw keys.refusal("rope.dimension_count", `the head's ${headDim}`, turned);
  const scaling =
    factors === undefined
      ? (longRope(keys, long) ?? scalingOf(keys))
      : llama3Scaling(keys, factors, Number(headDim), Number(theta));
  return { rope_theta: theta, rope_scaling: scaling };
}

/** Phi-3's scaling (Ding et al. 2024), whose factors are tensors. */
function longRope(keys: GgufKeys, { short, long }: Omit<GgufRope, "factors">): Record<string, unknown> | undefined {
  if (short === undefined && long === undefined) return undefined;
  if (short === undefined || long === undefined)
    throw keys.refusal("rope_factors_long.weight", "it together with rope_factors_short.weight", "one of them");
  return withoutUndefined({
    rope_type: "longrope",
    short_factor: [...short],
    long_factor: [...long],
    attention_factor: keys.own("rope.scaling.attn_factor"),
    original_max_position_embeddings: keys.own("rope.scaling.original_context_length"),
  });
}

function scalingOf(keys: GgufKeys): Record<string, unknown> | undefined {
  const type = keys.own("rope.scaling.type") ?? "none";
  if (type === "none") return undefined;
  return withoutUndefined({
    rope_type: type,
    factor: keys.own("rope.scaling.factor"),
    original_max_position_embeddings: keys.own("rope.scaling.original_context_length"),
    ...GGUF_ARCHITECTURES.get(keys.architecture())?.scaling,
  });
}

/**
 * Recomputes the frequency factors from the parameters and expects those of the file (Llama 3 RoPE scaling, rope_type
 * "llama3").
 */
function llama3Scaling(keys: GgufKeys, factors: Float32Array, headDim: number, theta: number): Record<string, unknown> {
  const factor = Math.max(...factors);
  const { low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: positions } = LLAMA3_ROPE;
  const isSame = factors.every((actual, i) => {
    const turns = (positions * theta ** ((-2 * i) / headDim)) / (2 * Math.PI);
    const kept = Math.min(1, Math.max(0, (turns - low) / (high - low)));
    return Math.abs(actual * ((1 - kept) / factor + kept) - 1) < FACTOR_TOLERANCE;
  });
  if (factors.length === headDim / 2 && isSame) return { rope_type: "llama3", factor, ...LLAMA3_ROPE };
  const shown = [...factors.subarray(0, 4)].join(", ");
  throw keys.refusal("rope_freqs.weight", `the ${headDim / 2} factors of Llama 3.1 and later`, shown);
}

function eosIds(keys: GgufKeys): readonly GgufScalar[] | undefined {
  const ids = ["eos", "eot", "eom"].map((name) => keys.get(`tokenizer.ggml.${name}_token_id`));
  const set = new Set(ids.filter((id) => id !== undefined));
  return set.size === 0 ? undefined : [...set];
}

function withoutUndefined(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
