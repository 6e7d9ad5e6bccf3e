/**
 * Reads config.json of a TensorRT-LLM checkpoint: rank mapping, quantization, and the model as Hugging Face fields.
 * Source: TensorRT-LLM documentation, "TensorRT-LLM Checkpoint", Config.
 */
import { HfFields } from "../hf/config-fields.ts";
import { hasWeightNames, weightNamesOf } from "../hf/weight-names.ts";
import { type TrtllmExperts, trtllmExperts, trtllmToHfConfig } from "./model.ts";
import type { TrtllmQuantization, TrtllmScheme } from "./quantized.ts";

export interface TrtllmConfig {
  /** Hugging Face class name. */
  readonly architecture: string;
  /** Equivalent fields of a Hugging Face config.json. */
  readonly model: Readonly<Record<string, unknown>>;
  readonly tpSize: number;
  readonly ppSize: number;
  /** Dimension of the embedding that is sharded over tensor-parallel ranks. */
  readonly embeddingSplit: "none" | "vocab" | "hidden";
  readonly numLayers: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly vocabSize: number;
  readonly maxPositions: number;
  readonly experts: TrtllmExperts | undefined;
  /** Undefined when weights are floats. */
  readonly quantization: TrtllmQuantization | undefined;
}

/** Architecture names that differ from Hugging Face's. */
const OWN_NAMES: ReadonlyMap<unknown, string> = new Map([
  // Its matrices are [outputs, inputs] here.
  ["GPT2LMHeadModel", "GPTForCausalLM"],
  ["QWenForCausalLM", "Qwen2ForCausalLM"],
]);
/** Supported activations; with "swiglu" one matrix holds gate and up projections. */
const ACTIVATIONS: readonly unknown[] = [
  "silu",
  "swiglu",
  "gelu",
  "gelu_new",
  "gelu_fast",
  "gelu_pytorch_tanh",
  "geglu",
];
const POSITIONS: readonly unknown[] = ["rope_gpt_neox", "learned_absolute", "yarn", "long_rope", "mrope"];
const MAX_SIZE: number = 1 << 24;
const MAX_LAYERS = 4096;
const MAX_RANKS = 4096;
const DEFAULT_GROUP_SIZE = 128;

/** Whether this is a TensorRT-LLM checkpoint config; Hugging Face configs list architectures instead. */
export function isTrtllmConfig(config: unknown): boolean {
  const fields = config as { architecture?: unknown } | null;
  return typeof fields === "object" && typeof fields?.architecture === "string";
}

/** @throws Error naming file and field */
export function parseTrtllmConfig(config: unknown, file: string): TrtllmConfig {
  const fields = new HfFields(config, file);
  const architecture = parseArchitecture(fields);
  refuseUnsupported(fields, architecture);
  const size = { min: 1, max: MAX_SIZE };
  const hiddenSize = fields.int("hidden_size", size);
  const numHeads = fields.int("num_attention_heads", size);
  const sizes = {
    architecture,
    hiddenSize,
    numHeads,
    numLayers: fields.int("num_hidden_layers", { min: 1, max: MAX_LAYERS }),
    numKvHeads: fields.int("num_key_value_heads", { ...size, default: numHeads }),
    headDim: fields.int("head_size", { min: 2, max: 1024, default: hiddenSize / numHeads }),
    intermediateSize: fields.int("intermediate_size", { ...size, default: 4 * hiddenSize }),
    vocabSize: fields.int("vocab_size", size),
    maxPositions: fields.int("max_position_embeddings", size),
    experts: weightNamesOf(architecture).experts === undefined ? undefined : trtllmExperts(fields),
  };
  const parsed = { ...sizes, ...parseMapping(fields), quantization: parseQuantization(fields) };
  expectEvenSplit(fields, parsed);
  return { ...parsed, embeddingSplit: parseEmbeddingSplit(fields), model: trtllmToHfConfig(fields, sizes) };
}

function parseArchitecture(fields: HfFields): string {
  const given = fields.get("architecture");
  const name = OWN_NAMES.get(given) ?? given;
  if (hasWeightNames(name)) return name;
  throw fields.refusal("architecture", "the class name of a model that is served here", given);
}

function refuseUnsupported(fields: HfFields, architecture: string): void {
  const names = weightNamesOf(architecture);
  const experts = fields.section("moe")?.get("num_experts") ?? 0;
  if (experts !== 0 && names.experts === undefined) {
    throw fields.refusal("moe", "a model without experts", { num_experts: experts });
  }
  if (names.headNorms === undefined && fields.boolean("qk_layernorm", false)) {
    throw fields.refusal("qk_layernorm", "false", true);
  }
  const position = fields.get("position_embedding_type") ?? "rope_gpt_neox";
  if (!POSITIONS.includes(position)) throw fields.refusal("position_embedding_type", POSITIONS.join(" or "), position);
  const activation = fields.get("hidden_act");
  if (!ACTIVATIONS.includes(activation)) throw fields.refusal("hidden_act", ACTIVATIONS.join(" or "), activation);
  for (const name of ["residual_mlp", "remove_duplicated_kv_heads"]) {
    if (fields.boolean(name, false)) throw fields.refusal(name, "false", true);
  }
}

function parseMapping(fields: HfFields): { readonly tpSize: number; readonly ppSize: number } {
  const mapping = fields.section("mapping");
  const sizeOf = (name: string): number => mapping?.int(name, { min: 1, max: MAX_RANKS, default: 1 }) ?? 1;
  if (mapping !== undefined && sizeOf("cp_size") !== 1) throw mapping.refusal("cp_size", "1", sizeOf("cp_size"));
  return { tpSize: sizeOf("tp_size"), ppSize: sizeOf("pp_size") };
}

/** Storage schemes by quant_algo name. The remaining parts of a name concern activations. */
const SCHEMES: ReadonlyMap<unknown, TrtllmScheme> = new Map([
  ["W4A16_AWQ", "awq"],
  ["W4A8_AWQ", "awq"],
  ["W4A16_GPTQ", "gptq"],
  ["W8A16", "weight-only-8"],
  ["W4A16", "weight-only-4"],
  ["W8A8_SQ_PER_CHANNEL", "smooth-quant"],
  ["W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN", "smooth-quant"],
  ["W8A8_SQ_PER_CHANNEL_PER_TENSOR_PLUGIN", "smooth-quant"],
  ["FP8", "fp8"],
]);

/** Undefined: not quantized. */
function parseQuantization(fields: HfFields): TrtllmQuantization | undefined {
  const quantization = fields.section("quantization");
  const algorithm = quantization?.get("quant_algo");
  if (quantization === undefined || algorithm === undefined) return undefined;
  const scheme = SCHEMES.get(algorithm);
  if (scheme === undefined) {
    const known = [...SCHEMES.keys()].join(", ");
    throw quantization.refusal(
      "quant_algo",
      `none or one of ${known}; convert others from their source again`,
      algorithm,
    );
  }
  // A checkpoint with zero points uses the GPTQ layout under any name.
  const hasZeros = scheme === "awq" && quantization.boolean("has_zero_point", false);
  return {
    scheme: hasZeros ? "gptq" : scheme,
    groupSize: quantization.int("group_size", { min: 1, max: MAX_SIZE, default: DEFAULT_GROUP_SIZE }),
  };
}

type Split = Pick<TrtllmConfig, "tpSize" | "ppSize" | "numLayers" | "numHeads" | "numKvHeads" | "intermediateSize">;

function expectEvenSplit(fields: HfFields, split: Split): void {
  const { tpSize, ppSize, numLayers, numHeads, numKvHeads, intermediateSize } = split;
  const mapping = { tp_size: tpSize, pp_size: ppSize };
  if (numLayers % ppSize !== 0) throw fields.refusal("mapping", `a pp_size that divides ${numLayers} layers`, mapping);
  if (numHeads % tpSize !== 0 || intermediateSize % tpSize !== 0 || !dividesEither(numKvHeads, tpSize)) {
    throw fields.refusal("mapping", "a tp_size that divides heads and MLP", mapping);
  }
}

/** With fewer key-value heads than ranks, several ranks hold a copy of each head. */
function dividesEither(numKvHeads: number, tpSize: number): boolean {
  return numKvHeads % tpSize === 0 || tpSize % numKvHeads === 0;
}

function parseEmbeddingSplit(fields: HfFields): TrtllmConfig["embeddingSplit"] {
  if (!fields.boolean("use_parallel_embedding", false)) return "none";
  return fields.int("embedding_sharding_dim", { min: 0, max: 1, default: 0 }) === 0 ? "vocab" : "hidden";
}
