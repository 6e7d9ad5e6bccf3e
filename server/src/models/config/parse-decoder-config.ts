/** Turns the config.json of any architecture of the table into one description of a decoder. It loads no weights. */
import type { HfConfigFiles } from "../../formats/hf/config.ts";
import { HfFields } from "../../formats/hf/config-fields.ts";
import type { WeightNames } from "../../formats/hf/weight-names.ts";
import type { Architecture, BiasRule } from "./architecture.ts";
import { ARCHITECTURES } from "./architectures.ts";
import type { Activation, DecoderConfig, DecoderLayer, Experts } from "./decoder-config.ts";
import { layerWindows } from "./layer-windows.ts";
import { parseRopes } from "./parse-rope.ts";

export interface ParsedDecoder {
  readonly config: DecoderConfig;
  /** Names of the weights in the files. */
  readonly weights: WeightNames;
  /** Rows of an output table of its own, where other GPUs have the others; absent: all. */
  readonly outputRows?: number;
}

/** Bounds on sizes: above every published model, below what overflows an address. */
const MAX_SIZE = 1 << 24;
const MAX_LAYERS = 4096;
const MAX_EXPERTS = 4096;
const SIZE = { min: 1, max: MAX_SIZE } as const;

const ACTIVATIONS: ReadonlyMap<unknown, Activation> = new Map([
  ["silu", "silu"],
  ["swish", "silu"],
  ["gelu_new", "gelu-tanh"],
  ["gelu_pytorch_tanh", "gelu-tanh"],
  ["gelu_fast", "gelu-tanh"],
  ["gelu", "gelu-erf"],
]);
/** Significant bits of the types in which models multiply embeddings. */
const SIGNIFICANT_BITS: ReadonlyMap<unknown, number> = new Map([
  ["bfloat16", 8],
  ["float16", 11],
]);

/** @throws Error naming file and field */
export function parseDecoderConfig({ config, generation, at }: HfConfigFiles): ParsedDecoder {
  const root = new HfFields(config, at.config);
  const architecture = findArchitecture(root);
  const fields = sectionOf(root, config, at.config, architecture);
  refuseUnsupported(root, fields, architecture);
  const sizes = parseSizes(fields, architecture);
  const idFields = [...(generation === undefined ? [] : [new HfFields(generation, at.generation)]), fields, root];
  const ids = (name: string): readonly number[] =>
    idFields.map((from) => from.ids(name, sizes.vocabSize)).find((list) => list.length > 0) ?? Object.freeze([]);
  const { intermediateSize: _, ...shape } = sizes;
  const described = {
    ...shape,
    ...parseLayers(fields, architecture, sizes),
    ...parseBlock(fields, architecture, sizes),
    embeddingScale: architecture.scalesEmbedding ? embeddingScale([fields, root], sizes.hiddenSize) : 1,
    tieWordEmbeddings: (root.get("tie_word_embeddings") === undefined ? fields : root).boolean(
      "tie_word_embeddings",
      false,
    ),
    bosTokenId: ids("bos_token_id")[0],
    padTokenId: ids("pad_token_id")[0],
    eosTokenIds: ids("eos_token_id"),
  };
  return { config: Object.freeze(described), weights: architecture.weights };
}

function findArchitecture(root: HfFields): Architecture {
  const names = root.get("architectures");
  const [name] = Array.isArray(names) ? (names as unknown[]) : [];
  const found = ARCHITECTURES.get(String(name));
  if (found === undefined) throw root.refusal("architectures", `one of ${[...ARCHITECTURES.keys()].join(", ")}`, names);
  return found;
}

function sectionOf(root: HfFields, config: unknown, at: string, architecture: Architecture): HfFields {
  if (architecture.section === undefined) return new HfFields(config, at, architecture);
  const section = root.section(architecture.section, architecture);
  if (section === undefined && architecture.isSectionOptional === true) return new HfFields(config, at, architecture);
  if (section === undefined) throw root.refusal(architecture.section, "an object", undefined);
  return architecture.sectionTypes === undefined ? section : sectionOfType(root, section, architecture);
}

function sectionOfType(root: HfFields, section: HfFields, architecture: Architecture): HfFields {
  const types = new Map(Object.entries(architecture.sectionTypes ?? {}));
  const type = section.get("model_type") ?? [...types.keys()][0];
  const leftOut = types.get(String(type));
  if (leftOut === undefined) throw section.refusal("model_type", [...types.keys()].join(" or "), type);
  const defaults = { ...leftOut, ...architecture.defaults };
  return root.section(architecture.section ?? "", { ...architecture, defaults }) ?? section;
}

function refuseUnsupported(root: HfFields, fields: HfFields, { requires = {} }: Architecture): void {
  for (const from of [root, fields]) {
    const quantization = from.get("quantization_config");
    if (quantization !== undefined)
      throw from.refusal("quantization_config", "weights that are not quantized", quantization);
  }
  for (const [name, expected] of Object.entries(requires)) {
    const value = fields.get(name) ?? expected;
    if (value !== expected) throw fields.refusal(name, JSON.stringify(expected), value);
  }
}

type Sizes = ReturnType<typeof parseSizes>;

function parseSizes(fields: HfFields, { intermediateRatio }: Architecture) {
  const hiddenSize = fields.int("hidden_size", SIZE);
  const numHeads = fields.int("num_attention_heads", SIZE);
  const numKvHeads = fields.int("num_key_value_heads", { min: 1, max: numHeads, default: numHeads });
  if (numHeads % numKvHeads !== 0) throw fields.refusal("num_key_value_heads", `a divisor of ${numHeads}`, numKvHeads);
  if (fields.get("head_dim") === undefined && hiddenSize % numHeads !== 0) {
    throw fields.refusal("hidden_size", `a multiple of num_attention_heads, ${numHeads}`, hiddenSize);
  }
  const headDim = fields.int("head_dim", { min: 2, max: 1024, default: hiddenSize / numHeads });
  if (headDim % 2 !== 0) throw fields.refusal("head_dim", "an even number", headDim);
  const ratio = intermediateRatio === undefined ? {} : { default: intermediateRatio * hiddenSize };
  return {
    vocabSize: fields.int("vocab_size", SIZE),
    hiddenSize,
    intermediateSize: fields.int("intermediate_size", { ...SIZE, ...ratio }),
    numLayers: fields.int("num_hidden_layers", { min: 1, max: MAX_LAYERS }),
    numHeads,
    numKvHeads,
    headDim,
    maxPositions: fields.int("max_position_embeddings", SIZE),
  };
}

function parseLayers(
  fields: HfFields,
  architecture: Architecture,
  sizes: Sizes,
): Pick<DecoderConfig, "layers" | "ropes" | "experts"> {
  const windows = layerWindows(fields, architecture.window, sizes.numLayers);
  const experts = architecture.weights.experts === undefined ? undefined : parseExperts(fields, architecture);
  const { full, sliding } = parseRopes(fields, sizes);
  const isRotary = architecture.positions === "rope";
  const hasTwo = full !== sliding && windows.some((window) => window !== undefined);
  const layers = windows.map((window, i): DecoderLayer => {
    const rope = hasTwo && window !== undefined ? 1 : 0;
    const mlp = experts !== undefined && hasExperts(fields, i) ? "experts" : "dense";
    return Object.freeze({ window, rope: isRotary ? rope : undefined, mlp });
  });
  const ropes = hasTwo ? [full, sliding] : [full];
  return { layers: Object.freeze(layers), ropes: Object.freeze(isRotary ? ropes : []), experts };
}

function parseExperts(fields: HfFields, { weights }: Architecture): Experts {
  const name = fields.get("num_experts") === undefined ? "num_local_experts" : "num_experts";
  const numExperts = fields.int(name, { min: 1, max: MAX_EXPERTS });
  const hasShared = weights.experts?.sharedGate !== undefined;
  return Object.freeze({
    numExperts,
    numChosen: fields.int("num_experts_per_tok", { min: 1, max: numExperts }),
    intermediateSize: fields.int("moe_intermediate_size", SIZE),
    isRenormalized: fields.boolean("norm_topk_prob", false),
    sharedIntermediateSize: hasShared ? fields.int("shared_expert_intermediate_size", SIZE) : 0,
  });
}

/** Some models leave layers dense: those listed, and all but every nth. */
function hasExperts(fields: HfFields, layer: number): boolean {
  const dense = fields.get("mlp_only_layers") ?? [];
  if (!Array.isArray(dense)) throw fields.refusal("mlp_only_layers", "numbers of layers", dense);
  const step = fields.int("decoder_sparse_step", { min: 1, max: MAX_LAYERS, default: 1 });
  return !dense.includes(layer) && (layer + 1) % step === 0;
}

function parseBlock(fields: HfFields, architecture: Architecture, sizes: Sizes) {
  const bias = (rule: BiasRule): boolean => (typeof rule === "boolean" ? rule : fields.boolean(rule.field, false));
  const { biases } = architecture;
  const scalar = fields.positive("query_pre_attn_scalar", sizes.headDim);
  const activation = architecture.activation ?? ACTIVATIONS.get(fields.get("hidden_act") ?? "silu");
  if (activation === undefined) {
    throw fields.refusal("hidden_act", `one of ${[...ACTIVATIONS.keys()].join(", ")}`, fields.get("hidden_act"));
  }
  return {
    norm: Object.freeze({
      kind: architecture.norm === "layer" ? ("layer" as const) : ("rms" as const),
      epsilon: fields.positive("rms_norm_eps", 1e-6),
      weightOffset: architecture.norm === "rms-plus-one" ? (1 as const) : (0 as const),
    }),
    residual: architecture.residual,
    hasHeadNorm: architecture.hasHeadNorm,
    attentionScale: 1 / Math.sqrt(scalar),
    attentionSoftCap: optionalPositive(fields, "attn_logit_softcapping"),
    mlp: Object.freeze({ isGated: architecture.isGated, activation, intermediateSize: sizes.intermediateSize }),
    biases: Object.freeze({
      qkv: bias(biases.qkv),
      oProj: bias(biases.oProj),
      mlp: bias(biases.mlp),
      output: bias(biases.output),
    }),
    logitSoftCap: optionalPositive(fields, "final_logit_softcapping"),
  };
}

function optionalPositive(fields: HfFields, name: string): number | undefined {
  return fields.get(name) === undefined ? undefined : fields.positive(name);
}

/** The root of the width, in the precision of the model's own type: what it was trained with. */
function embeddingScale(holders: readonly HfFields[], hiddenSize: number): number {
  const exact = Math.sqrt(hiddenSize);
  const types = holders.flatMap((fields) => [fields.get("torch_dtype"), fields.get("dtype")]);
  const bits = SIGNIFICANT_BITS.get(types.find((type) => type !== undefined));
  if (bits === undefined) return exact;
  const step = 2 ** (Math.floor(Math.log2(exact)) - bits + 1);
  return Math.round(exact / step) * step;
}
