/** Turns the config.json of any architecture of the table into one description of a decoder. It loads no weights. */
import type { HfConfigFiles } from "../../formats/hf/config.ts";
import { HfFields } from "../../formats/hf/config-fields.ts";
import type { WeightNames } from "../../formats/hf/weight-names.ts";
import type { Architecture, BiasRule } from "./architecture.ts";
import { ARCHITECTURES, ENCODERS } from "./architectures.ts";
import type { Activation, DecoderConfig, DecoderLayer, Experts, Rope } from "./decoder-config.ts";
import { layerWindows } from "./layer-windows.ts";
import { parseRopes } from "./parse-rope.ts";
import { refuseUnknownFields } from "./unknown-fields.ts";

export interface ParsedDecoder {
  readonly config: DecoderConfig;
  /** Names of the weights in the files. */
  readonly weights: WeightNames;
  /** The encoder in front, whose tensors are in the same files. */
  readonly encoder?: Pick<ParsedDecoder, "config" | "weights"> | undefined;
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
  ["relu", "relu"],
  ["relu2", "relu2"],
  ["xielu", "xielu"],
]);
/** Significant bits of the types in which models multiply embeddings. */
const SIGNIFICANT_BITS: ReadonlyMap<unknown, number> = new Map([
  ["bfloat16", 8],
  ["float16", 11],
]);

/** @throws Error naming file and field */
export function parseDecoderConfig(files: HfConfigFiles): ParsedDecoder {
  return parseFields(files).parsed;
}

/** As `parseDecoderConfig()`, of encoders too: decoders that were trained for embeddings are among both. */
export function parseEncoderConfig(files: HfConfigFiles): ParsedDecoder {
  const { config, weights, encoder } = parseFields(files, new Map([...ARCHITECTURES, ...ENCODERS])).parsed;
  if (encoder !== undefined)
    throw new Error(`${files.at.config}: an encoder with a decoder gives text, and no vectors here`);
  // There is no output table to load, or it is not used.
  const biases = Object.freeze({ ...config.biases, output: false });
  return { config: Object.freeze({ ...config, biases, tieWordEmbeddings: true }), weights };
}

/** Fields of the file that decide how the model computes. @throws Error as `parseDecoderConfig()` does */
export function honouredFields(files: HfConfigFiles): readonly string[] {
  return parseFields(files).fields.read();
}

function parseFields(
  { config, generation, at, isConverted = false }: HfConfigFiles,
  table: ReadonlyMap<string, Architecture> = ARCHITECTURES,
  given?: Architecture,
): {
  readonly parsed: ParsedDecoder;
  readonly fields: HfFields;
} {
  const root = new HfFields(config, at.config);
  const row = given ?? findArchitecture(root, table);
  const fields = sectionOf(root, config, at.config, row);
  const architecture = { ...row, ...row.variant?.(fields) };
  refuseUnsupported(root, fields, architecture);
  const encoder = encoderOf({ config, generation, at, isConverted }, architecture);
  const sizes = parseSizes(fields, architecture);
  const idFields = [...(generation === undefined ? [] : [new HfFields(generation, at.generation)]), fields, root];
  const ids = (name: string): readonly number[] =>
    idFields.map((from) => from.ids(name, sizes.vocabSize)).find((list) => list.length > 0) ?? Object.freeze([]);
  const { intermediateSize: _, ...shape } = sizes;
  const described = {
    ...shape,
    ...parseLayers(fields, architecture, sizes),
    ...parseBlock(fields, architecture, sizes),
    embeddingScale: architecture.scalesEmbedding
      ? embeddingScale([fields, root], sizes.hiddenSize)
      : (architecture.scales?.embedding ?? 1),
    tieWordEmbeddings: (root.get("tie_word_embeddings") === undefined ? fields : root).boolean(
      "tie_word_embeddings",
      false,
    ),
    bosTokenId: ids("bos_token_id")[0],
    padTokenId: ids("pad_token_id")[0],
    eosTokenIds: ids("eos_token_id"),
    startTokenIds:
      encoder === undefined
        ? Object.freeze([])
        : Object.freeze([...ids("decoder_start_token_id"), ...ids("forced_bos_token_id")]),
  };
  if (!isConverted) refuseUnknownFields(fields, architecture);
  const finished = Object.freeze({ ...described, maxPositions: shownPositions(described, architecture) });
  const parsed = { config: finished, weights: architecture.weights };
  return { parsed: encoder === undefined ? parsed : { ...parsed, encoder }, fields };
}

function encoderOf(files: HfConfigFiles, { encoder: row }: Architecture): ParsedDecoder["encoder"] {
  if (row === undefined) return undefined;
  const { config, weights } = parseFields(files, undefined, row).parsed;
  return { config, weights };
}

/** Positions for which what is computed was shown to be right. */
function shownPositions(
  { maxPositions, ropes }: Pick<DecoderConfig, "maxPositions" | "ropes">,
  { isShortRopeOnly = false }: Architecture,
): number {
  const originals = ropes.flatMap(({ scaling }) =>
    isShortRopeOnly && scaling.kind === "longrope" ? [scaling.originalMaxPositions] : [],
  );
  return Math.min(maxPositions, ...originals);
}

function findArchitecture(root: HfFields, table: ReadonlyMap<string, Architecture>): Architecture {
  const names = root.get("architectures");
  const [name] = Array.isArray(names) ? (names as unknown[]) : [];
  const found = table.get(String(name));
  if (found === undefined) {
    const other = "or a GGUF file (convert_hf_to_gguf.py of llama.cpp writes it), which the llama.cpp engine serves";
    throw root.refusal("architectures", `one of ${[...table.keys()].join(", ")}; ${other}`, names);
  }
  const { older } = found;
  return older === undefined || root.get(older.field) === undefined ? found : { ...found, ...older.row };
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

function parseSizes(fields: HfFields, architecture: Architecture) {
  const { intermediateRatio, intermediateField = "intermediate_size" } = architecture;
  const { maxPositionsField = "max_position_embeddings" } = architecture;
  const hiddenSize = fields.int("hidden_size", SIZE);
  const numHeads = fields.int("num_attention_heads", SIZE);
  const { numKvHeads, headDim } = parseHeads(fields, architecture, hiddenSize, numHeads);
  const unused = architecture.hasUnusedPositions === true ? (architecture.weights.positionsOffset ?? 0) : 0;
  const ratio = intermediateRatio === undefined ? {} : { default: intermediateRatio * hiddenSize };
  return {
    vocabSize: fields.int("vocab_size", SIZE),
    hiddenSize,
    intermediateSize: architecture.intermediateSize ?? fields.int(intermediateField, { ...SIZE, ...ratio }),
    numLayers: fields.int("num_hidden_layers", { min: 1, max: MAX_LAYERS }),
    numHeads,
    numKvHeads,
    headDim,
    maxPositions: architecture.maxPositions ?? fields.int(maxPositionsField, SIZE) - unused,
  };
}

function parseHeads(
  fields: HfFields,
  { numKvHeads: given, latent }: Architecture,
  hiddenSize: number,
  numHeads: number,
): { readonly numKvHeads: number; readonly headDim: number } {
  if (latent !== undefined) return { numKvHeads: 1, headDim: latent.keyRank + latent.ropeDims };
  const numKvHeads = given ?? fields.int("num_key_value_heads", { min: 1, max: numHeads, default: numHeads });
  if (numHeads % numKvHeads !== 0) throw fields.refusal("num_key_value_heads", `a divisor of ${numHeads}`, numKvHeads);
  if (fields.get("head_dim") === undefined && hiddenSize % numHeads !== 0) {
    throw fields.refusal("hidden_size", `a multiple of num_attention_heads, ${numHeads}`, hiddenSize);
  }
  const headDim = fields.int("head_dim", { min: 2, max: 1024, default: hiddenSize / numHeads });
  if (headDim % 2 !== 0) throw fields.refusal("head_dim", "an even number", headDim);
  return { numKvHeads, headDim };
}

function parseLayers(
  fields: HfFields,
  architecture: Architecture,
  sizes: Sizes,
): Pick<DecoderConfig, "layers" | "ropes" | "experts"> {
  const { isCausal = true } = architecture;
  const given = layerWindows(fields, architecture.window, sizes.numLayers);
  // Fields of encoders say both sides of a token together.
  const windows = given.map((window) => (window === undefined || isCausal ? window : Math.floor(window / 2) + 1));
  const experts = architecture.weights.experts === undefined ? undefined : parseExperts(fields, architecture);
  const { numDenseLayers = 0, withoutRope = () => false, isRecurrent = () => false, isExpertLayer } = architecture;
  const isRotary = architecture.positions === "rope";
  const ropes = isRotary ? ropesOf(fields, architecture, sizes, windows) : [];
  const layers = windows.map((window, i): DecoderLayer => {
    const rope = ropes.length > 1 && window !== undefined ? 1 : 0;
    const isSparse = isExpertLayer?.(i) ?? (i >= numDenseLayers && hasExperts(fields, i));
    const mlp = experts !== undefined && isSparse ? "experts" : "dense";
    if (isRecurrent(i)) return Object.freeze({ window: undefined, rope: undefined, mlp, isRecurrent: true });
    const details = architecture.layerDetails?.(i) ?? {};
    return Object.freeze({ window, rope: isRotary && !withoutRope(i, window) ? rope : undefined, mlp, ...details });
  });
  return { layers: Object.freeze(layers), ropes: Object.freeze(ropes), experts };
}

/** That of layers without a window, and that of the others if it is another one. */
function ropesOf(
  fields: HfFields,
  { hasPlainLocalRope, isRopeInterleaved: isInterleaved, rotaryDims, ropeTheta: theta, fullHeadDim }: Architecture,
  sizes: Sizes,
  windows: readonly (number | undefined)[],
): readonly Rope[] {
  const { full, sliding } = parseRopes(fields, { ...sizes, rotaryDims, theta, fullHeadDim });
  const local =
    full === sliding && hasPlainLocalRope === true ? { ...full, scaling: { kind: "none" as const } } : sliding;
  const hasTwo = full !== local && windows.some((window) => window !== undefined);
  const ropes = hasTwo ? [full, local] : [full];
  return isInterleaved === true ? ropes.map((rope) => Object.freeze({ ...rope, isInterleaved })) : ropes;
}

function parseExperts(fields: HfFields, { weights, routing, sharedExpertsSize }: Architecture): Experts {
  const name = fields.get("num_experts") === undefined ? "num_local_experts" : "num_experts";
  const numExperts = fields.int(name, { min: 1, max: MAX_EXPERTS });
  const hasShared = weights.experts?.sharedGate !== undefined;
  return Object.freeze({
    numExperts,
    numChosen: fields.int("num_experts_per_tok", { min: 1, max: numExperts }),
    intermediateSize: fields.int("moe_intermediate_size", SIZE),
    isRenormalized: fields.boolean("norm_topk_prob", false),
    sharedIntermediateSize: sharedExpertsSize ?? (hasShared ? fields.int("shared_expert_intermediate_size", SIZE) : 0),
    ...(routing === undefined ? {} : { routing }),
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
  const { scales = {}, norm } = architecture;
  const scalar = fields.positive("query_pre_attn_scalar", sizes.headDim);
  const activation = architecture.activation ?? ACTIVATIONS.get(fields.get("hidden_act") ?? "silu");
  if (activation === undefined || !isKnownForm(activation, architecture.isGated)) {
    const known = [...ACTIVATIONS].flatMap(([name, form]) => (isKnownForm(form, architecture.isGated) ? [name] : []));
    throw fields.refusal("hidden_act", `one of ${known.join(", ")}`, fields.get("hidden_act"));
  }
  return {
    norm: Object.freeze({
      kind: norm.startsWith("layer") ? ("layer" as const) : ("rms" as const),
      epsilon: fields.positive("rms_norm_eps", 1e-6),
      // GGUF files hold weights with the one added.
      weightOffset:
        norm.endsWith("plus-one") && !fields.boolean("norm_weights_are_whole", false) ? (1 as const) : (0 as const),
      hasBias: architecture.hasNormBias ?? norm.startsWith("layer"),
    }),
    numSegments: architecture.weights.segments === undefined ? 0 : fields.int("type_vocab_size", SIZE),
    ...parseMixer(architecture),
    attentionScale: scales.attention ?? 1 / Math.sqrt(scalar),
    attentionSoftCap: optionalPositive(fields, "attn_logit_softcapping"),
    mlp: Object.freeze({
      isGated: architecture.isGated,
      activation,
      intermediateSize: sizes.intermediateSize,
      ...(architecture.clamp === undefined ? {} : { clamp: architecture.clamp }),
    }),
    biases: Object.freeze({
      qkv: bias(biases.qkv),
      oProj: bias(biases.oProj),
      mlp: bias(biases.mlp),
      output: bias(biases.output),
      recurrent: architecture.hasRecurrentBias ?? false,
    }),
    hasEmbeddingNorm: architecture.weights.embeddingNorm !== undefined,
    residualScale: scales.residual ?? 1,
    logitScale: scales.logits ?? 1,
    logitSoftCap: optionalPositive(fields, "final_logit_softcapping"),
  };
}

/** Attention and layers in its place, as far as the row alone says it. */
function parseMixer(architecture: Architecture) {
  const { residual, headNorm, latent, recurrent, temperature, qkvClip, positions } = architecture;
  return {
    residual,
    isCausal: architecture.isCausal ?? true,
    hasChunks: architecture.hasChunks ?? false,
    headNorm,
    latent,
    recurrent,
    temperature,
    qkvClip,
    hasOutputGate: architecture.hasOutputGate ?? false,
    hasSinks: architecture.hasSinks ?? false,
    hasValueNorm: architecture.hasValueNorm ?? false,
    perLayerInputs: architecture.perLayerInputs,
    altUp: architecture.altUp,
    hasLayerScale: architecture.hasLayerScale ?? false,
    hasExpertsBeside: architecture.hasExpertsBeside ?? false,
    alibiScale: positions === "alibi" ? (architecture.alibiScale ?? 1) : undefined,
    relativeBias: architecture.relativeBias,
    positionBuckets: architecture.positionBuckets,
    sinusoids: positions === "sinusoidal" ? { firstPosition: architecture.firstSinusoid ?? 0 } : undefined,
    audioStem: architecture.audioStem,
    hasCrossAttention: architecture.encoder !== undefined,
  };
}

/** SiLU comes with a gate, ReLU without one. */
function isKnownForm(activation: Activation, isGated: boolean): boolean {
  if (activation === "silu") return isGated;
  return activation === "xielu" || activation === "relu" || activation === "relu2" ? !isGated : true;
}

function optionalPositive(fields: HfFields, name: string): number | undefined {
  return fields.isNull(name) || fields.get(name) === undefined ? undefined : fields.positive(name);
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
