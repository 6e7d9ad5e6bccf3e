/**
 * Reads `config.json` and `generation_config.json` of a Hugging Face folder into one complete frozen description of a
 * decoder of the Llama family. It loads no weights.
 */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { HfFields } from "./hf-config-fields.ts";

export type RopeScaling =
  | { readonly kind: "none" }
  | { readonly kind: "linear"; readonly factor: number }
  | {
      readonly kind: "llama3";
      readonly factor: number;
      readonly lowFrequencyFactor: number;
      readonly highFrequencyFactor: number;
      readonly originalMaxPositions: number;
    };

export interface LlamaConfig {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly numLayers: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly maxPositions: number;
  readonly rmsNormEpsilon: number;
  readonly ropeTheta: number;
  readonly ropeScaling: RopeScaling;
  /** The output projection is the embedding table. */
  readonly tieWordEmbeddings: boolean;
  readonly attentionBias: boolean;
  readonly mlpBias: boolean;
  readonly bosTokenId: number | undefined;
  readonly padTokenId: number | undefined;
  /** Generation stops at each of these. */
  readonly eosTokenIds: readonly number[];
}

const ARCHITECTURES: readonly string[] = ["LlamaForCausalLM", "MistralForCausalLM"];
/** A config has some forty fields; larger files are something else. */
const MAX_CONFIG_BYTES = 1 << 20;
/** Bounds on sizes: above every published model, below what overflows an address. */
const MAX_SIZE = 1 << 24;
const MAX_LAYERS = 4096;

/** @throws Error naming file and field */
export async function readLlamaConfig(directory: string): Promise<LlamaConfig> {
  const configPath = join(directory, "config.json");
  const generationPath = join(directory, "generation_config.json");
  const config = parseJson(await readBounded(configPath), configPath);
  const hasGeneration = await stat(generationPath).then(
    () => true,
    () => false,
  );
  const generation = hasGeneration ? parseJson(await readBounded(generationPath), generationPath) : undefined;
  return parseLlamaConfig(config, generation, { config: configPath, generation: generationPath });
}

/** The same from parsed JSON; `at` names the sources in errors. */
export function parseLlamaConfig(
  config: unknown,
  generation: unknown,
  at: { readonly config: string; readonly generation: string },
): LlamaConfig {
  const fields = new HfFields(config, at.config);
  refuseUnsupported(fields);
  const sizes = parseSizes(fields);
  const generationFields = generation === undefined ? undefined : new HfFields(generation, at.generation);
  const ids = (name: string): readonly number[] => {
    const preferred = generationFields?.ids(name, sizes.vocabSize) ?? [];
    return preferred.length > 0 ? preferred : fields.ids(name, sizes.vocabSize);
  };
  const rope = fields.firstOf("rope_parameters", "rope_scaling");
  return Object.freeze({
    ...sizes,
    rmsNormEpsilon: fields.positive("rms_norm_eps", 1e-6),
    ropeTheta:
      rope?.get("rope_theta") === undefined ? fields.positive("rope_theta", 10_000) : rope.positive("rope_theta"),
    ropeScaling: Object.freeze(parseRopeScaling(rope, sizes.maxPositions)),
    tieWordEmbeddings: fields.boolean("tie_word_embeddings", false),
    attentionBias: fields.boolean("attention_bias", false),
    mlpBias: fields.boolean("mlp_bias", false),
    bosTokenId: ids("bos_token_id")[0],
    padTokenId: ids("pad_token_id")[0],
    eosTokenIds: ids("eos_token_id"),
  });
}

function refuseUnsupported(fields: HfFields): void {
  const architectures = fields.get("architectures");
  const [architecture] = Array.isArray(architectures) ? (architectures as unknown[]) : [];
  if (!ARCHITECTURES.includes(String(architecture))) {
    throw fields.refusal("architectures", ARCHITECTURES.join(" or "), architectures);
  }
  const activation = fields.get("hidden_act") ?? "silu";
  if (activation !== "silu") throw fields.refusal("hidden_act", '"silu"', activation);
  const quantization = fields.get("quantization_config");
  if (quantization !== undefined)
    throw fields.refusal("quantization_config", "weights that are not quantized", quantization);
  const window = fields.get("sliding_window");
  const positions = fields.get("max_position_embeddings");
  if (window !== undefined && !(typeof window === "number" && typeof positions === "number" && window >= positions)) {
    throw fields.refusal("sliding_window", "none", window);
  }
}

function parseSizes(fields: HfFields) {
  const size = { min: 1, max: MAX_SIZE };
  const hiddenSize = fields.int("hidden_size", size);
  const numHeads = fields.int("num_attention_heads", size);
  const numKvHeads = fields.int("num_key_value_heads", { min: 1, max: numHeads, default: numHeads });
  if (numHeads % numKvHeads !== 0) throw fields.refusal("num_key_value_heads", `a divisor of ${numHeads}`, numKvHeads);
  if (fields.get("head_dim") === undefined && hiddenSize % numHeads !== 0) {
    throw fields.refusal("hidden_size", `a multiple of num_attention_heads, ${numHeads}`, hiddenSize);
  }
  const headDim = fields.int("head_dim", { min: 2, max: 1024, default: hiddenSize / numHeads });
  if (headDim % 2 !== 0) throw fields.refusal("head_dim", "an even number", headDim);
  return {
    vocabSize: fields.int("vocab_size", size),
    hiddenSize,
    intermediateSize: fields.int("intermediate_size", size),
    numLayers: fields.int("num_hidden_layers", { min: 1, max: MAX_LAYERS }),
    numHeads,
    numKvHeads,
    headDim,
    maxPositions: fields.int("max_position_embeddings", size),
  };
}

function parseRopeScaling(rope: HfFields | undefined, maxPositions: number): RopeScaling {
  const kind = rope?.get("rope_type") ?? rope?.get("type") ?? "default";
  if (rope === undefined || kind === "default") return { kind: "none" };
  if (kind === "linear") return { kind, factor: rope.positive("factor") };
  if (kind !== "llama3") throw rope.refusal("rope_type", '"default", "linear" or "llama3"', kind);
  const lowFrequencyFactor = rope.positive("low_freq_factor");
  const highFrequencyFactor = rope.positive("high_freq_factor");
  if (highFrequencyFactor <= lowFrequencyFactor) {
    throw rope.refusal(
      "high_freq_factor",
      `a number above low_freq_factor, ${lowFrequencyFactor}`,
      highFrequencyFactor,
    );
  }
  const originalMaxPositions = rope.int("original_max_position_embeddings", {
    min: 1,
    max: MAX_SIZE,
    default: maxPositions,
  });
  return { kind, factor: rope.positive("factor"), lowFrequencyFactor, highFrequencyFactor, originalMaxPositions };
}

async function readBounded(path: string): Promise<string> {
  const { size } = await stat(path).catch((cause: unknown) => {
    throw new Error(`${path}: expected a file`, { cause });
  });
  if (size > MAX_CONFIG_BYTES) throw new Error(`${path}: expected at most ${MAX_CONFIG_BYTES} bytes, got ${size}`);
  return readFile(path, "utf8");
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error(`${path}: expected JSON`, { cause });
  }
}
