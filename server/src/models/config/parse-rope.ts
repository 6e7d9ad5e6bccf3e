/** Reads the rotary positions of a config.json, in its old spelling and its new one. */
import type { HfFields } from "../../formats/hf/config-fields.ts";
import type { Rope, RopeScaling } from "./decoder-config.ts";

export interface RopeSizes {
  readonly headDim: number;
  readonly maxPositions: number;
  /** Elements of a head that rotate and the base, where the architecture says them in its own way. */
  readonly rotaryDims?: number | undefined;
  readonly theta?: number | undefined;
  /** Size of the heads of layers without a window, where it is another one than `headDim`. */
  readonly fullHeadDim?: number | undefined;
}

/** RoPE of layers with full attention, and of layers with a window. */
export interface ParsedRopes {
  readonly full: Rope;
  readonly sliding: Rope;
}

const MAX_POSITIONS = 1 << 24;
const KINDS = '"default", "linear", "llama3", "yarn", "longrope", "mrope" or "proportional"';

export function parseRopes(fields: HfFields, sizes: RopeSizes): ParsedRopes {
  const described = fields.firstOf("rope_parameters", "rope_scaling");
  if (described?.get("full_attention") !== undefined) {
    const fullSizes = { ...sizes, headDim: sizes.fullHeadDim ?? sizes.headDim };
    const full = parseRope(fields, described.section("full_attention"), fullSizes);
    const sliding = described.section("sliding_attention");
    return { full, sliding: sliding === undefined ? full : parseRope(fields, sliding, sizes) };
  }
  const full = parseRope(fields, described, sizes);
  if (fields.get("rope_local_base_freq") === undefined) return { full, sliding: full };
  return { full, sliding: { ...full, theta: fields.positive("rope_local_base_freq"), scaling: { kind: "none" } } };
}

function parseRope(fields: HfFields, rope: HfFields | undefined, sizes: RopeSizes): Rope {
  const holderOf = (name: string): HfFields => (rope?.get(name) === undefined ? fields : rope);
  const share = holderOf("partial_rotary_factor").positive("partial_rotary_factor", 1);
  const isProportional = rope?.get("rope_type") === "proportional";
  const numDims = sizes.rotaryDims ?? (isProportional ? sizes.headDim : Math.floor(sizes.headDim * share));
  if (numDims % 2 !== 0 || numDims < 2 || numDims > sizes.headDim) {
    const expected = `an even part of a head of ${sizes.headDim}`;
    throw holderOf("partial_rotary_factor").refusal("partial_rotary_factor", expected, share);
  }
  const scaling =
    rope === undefined
      ? ({ kind: "none" } as const)
      : isProportional
        ? parseProportional(rope, Math.floor((sizes.headDim * share) / 2))
        : parseScaling(fields, rope, numDims, sizes);
  // Text has one position: how images divide the frequencies does not matter to it.
  const isInterleaved = rope?.boolean("mrope_interleaved", false) === true;
  const hasSections = rope?.get("mrope_section") !== undefined && !isInterleaved;
  const sections = rope !== undefined && hasSections ? parseSections(rope, numDims / 2) : undefined;
  return Object.freeze({
    theta: stretched(sizes.theta ?? holderOf("rope_theta").positive("rope_theta", 10_000), rope, numDims),
    numDims,
    scaling: Object.freeze(scaling),
    ...(sections === undefined ? {} : { sections }),
  });
}

/** Hunyuan's form of a "dynamic" scaling: another base, whatever the length of the sequence. */
function stretched(theta: number, rope: HfFields | undefined, numDims: number): number {
  const alpha = rope?.get("alpha");
  return rope === undefined || alpha === undefined
    ? theta
    : theta * rope.positive("alpha") ** (numDims / (numDims - 2));
}

/** Sizes of the sections for time, row and column, in this order. */
function parseSections(rope: HfFields, count: number): readonly [number, number, number] {
  const [time = 0, row = 0, column = 0] = rope.positives("mrope_section", 3);
  if ([time, row, column].every(Number.isInteger) && time + row + column === count) {
    return Object.freeze([time, row, column]);
  }
  throw rope.refusal("mrope_section", `three whole numbers with the sum ${count}`, rope.get("mrope_section"));
}

function parseScaling(fields: HfFields, rope: HfFields, numDims: number, sizes: RopeSizes): RopeScaling {
  const kind = rope.get("rope_type") ?? rope.get("type") ?? "default";
  const holder = rope.get("original_max_position_embeddings") === undefined ? fields : rope;
  const originalMaxPositions = holder.int("original_max_position_embeddings", {
    min: 1,
    max: MAX_POSITIONS,
    default: sizes.maxPositions,
  });
  const isStretched = kind === "dynamic" && rope.get("alpha") !== undefined;
  if (kind === "default" || kind === "mrope" || isStretched) return { kind: "none" };
  if (kind === "linear") return { kind, factor: rope.positive("factor") };
  if (kind === "llama3") return parseLlama3(rope, originalMaxPositions);
  if (kind === "yarn") return parseYarn(rope, originalMaxPositions);
  if (kind === "longrope" || kind === "su") {
    return {
      kind: "longrope",
      shortFactors: rope.positives("short_factor", numDims / 2),
      longFactors: rope.positives("long_factor", numDims / 2),
      originalMaxPositions,
      ...(rope.get("short_mscale") === undefined ? {} : { shortMagnitude: rope.positive("short_mscale") }),
      magnitude: longRopeMagnitude(rope, sizes.maxPositions / originalMaxPositions, originalMaxPositions),
    };
  }
  throw rope.refusal("rope_type", KINDS, kind);
}

function parseProportional(rope: HfFields, numPairs: number): RopeScaling {
  return { kind: "proportional", factor: rope.positive("factor", 1), numPairs };
}

function parseLlama3(rope: HfFields, originalMaxPositions: number): RopeScaling {
  const lowFrequencyFactor = rope.positive("low_freq_factor");
  const highFrequencyFactor = rope.positive("high_freq_factor");
  if (highFrequencyFactor <= lowFrequencyFactor) {
    const expected = `a number above low_freq_factor, ${lowFrequencyFactor}`;
    throw rope.refusal("high_freq_factor", expected, highFrequencyFactor);
  }
  const factor = rope.positive("factor");
  return { kind: "llama3", factor, lowFrequencyFactor, highFrequencyFactor, originalMaxPositions };
}

function parseYarn(rope: HfFields, originalMaxPositions: number): RopeScaling {
  const factor = rope.positive("factor");
  return {
    kind: "yarn",
    factor,
    betaFast: rope.positive("beta_fast", 32),
    betaSlow: rope.positive("beta_slow", 1),
    originalMaxPositions,
    isTruncated: rope.boolean("truncate", true),
    magnitude: rope.positive("attention_factor", yarnMagnitude(rope, factor)),
  };
}

function yarnMagnitude(rope: HfFields, factor: number): number {
  const grown = (by: number): number => (factor <= 1 ? 1 : 0.1 * by * Math.log(factor) + 1);
  if (rope.get("mscale") === undefined || rope.get("mscale_all_dim") === undefined) return grown(1);
  return grown(rope.positive("mscale")) / grown(rope.positive("mscale_all_dim"));
}

function longRopeMagnitude(rope: HfFields, factor: number, originalMaxPositions: number): number {
  const grown = factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(originalMaxPositions));
  return rope.positive("long_mscale", rope.positive("attention_factor", grown));
}
