/**
 * One GPU's part of a decoder: a run of its layers, and in each its share of heads, of inner widths and of the rows of
 * logits. Pure: it names parts of tensors, and reads none.
 */
import type { DecoderConfig } from "../config/decoder-config.ts";
import type { ParsedDecoder } from "../config/parse-decoder-config.ts";
import {
  describeWeights,
  type ExpertWeights,
  findPrefix,
  type LayerWeights,
  type Linear,
  type Mlp,
  type WeightPlan,
  type WeightSource,
} from "../weights/weight-plan.ts";

/** Position of a rank. Ranks of a stage share its layers; stages follow each other. */
export interface RankPlace {
  readonly tensorRank: number;
  readonly numTensorRanks: number;
  readonly stage: number;
  readonly numStages: number;
}

export interface Range {
  readonly first: number;
  readonly count: number;
}

/** The source of a rank's tensor. */
export interface WeightSlice {
  /** In the files, with its shape there. */
  readonly source: WeightSource;
  /** Shape of the rank's tensor. */
  readonly shape: readonly number[];
  /** Undefined: the whole. */
  readonly cut?: { readonly axis: 0 | 1; readonly ranges: readonly Range[] } | undefined;
  /** Another rank adds it. */
  readonly isZero?: boolean;
}

export interface RankShard {
  /** Configuration of the whole model, which all ranks run together. */
  readonly whole: DecoderConfig;
  /** The decoder as this rank runs it. */
  readonly parsed: ParsedDecoder;
  /** By the names that the rank's decoder asks for. */
  readonly slices: ReadonlyMap<string, WeightSlice>;
  /** Rows of the vocabulary whose logits this rank makes. */
  readonly vocabulary: Range;
  /** Rows of the vocabulary on each rank before the last. */
  readonly vocabularyStep: number;
}

/** Rows of logits come in whole groups of these. */
const VOCABULARY_STEP = 16;

/** As TensorRT-LLM numbers them: ranks of a stage side by side. */
export function placeOf(rank: number, numTensorRanks: number, numStages: number): RankPlace {
  return { tensorRank: rank % numTensorRanks, numTensorRanks, stage: Math.floor(rank / numTensorRanks), numStages };
}

/** @throws Error when the model cannot be split so */
export function expectSplits(config: DecoderConfig, { numTensorRanks, numStages }: RankPlace): void {
  const { numHeads, numKvHeads, mlp, experts, numLayers, vocabSize } = config;
  const hasEven = numKvHeads % numTensorRanks === 0 || numTensorRanks % numKvHeads === 0;
  const refusal = (what: string, size: number): Error =>
    new Error(`tensor parallelism: ${what} ${size} cannot be shared by ${numTensorRanks} GPUs`);
  if (numHeads % numTensorRanks !== 0) throw refusal("num_attention_heads", numHeads);
  if (!hasEven) throw refusal("num_key_value_heads", numKvHeads);
  const hasDense = config.layers.some((layer) => layer.mlp === "dense");
  if (hasDense && mlp.intermediateSize % numTensorRanks !== 0) throw refusal("intermediate_size", mlp.intermediateSize);
  for (const width of [experts?.intermediateSize ?? 0, experts?.sharedIntermediateSize ?? 0]) {
    if (width % numTensorRanks !== 0) throw refusal("the width of experts", width);
  }
  // Their checkpoints stack experts in one tensor, and biases of experts would be added by each rank.
  if (config.hasSinks && numTensorRanks > 1) throw refusal("attention sinks of heads", numHeads);
  if (vocabSize <= VOCABULARY_STEP * numTensorRanks) throw refusal("vocab_size", vocabSize);
  if (numLayers < numStages) {
    throw new Error(`pipeline parallelism: ${numLayers} layers are too few for ${numStages} GPUs`);
  }
}

/** `hasTensor`: whether the files hold one of that name. @throws Error when the model cannot be split so */
export function shardDecoder(
  { config, weights: names }: ParsedDecoder,
  hasTensor: (name: string) => boolean,
  place: RankPlace,
): RankShard {
  expectSplits(config, place);
  if (names.hasGroupedQkv === true)
    throw new Error("tensor parallelism: a projection whose rows are groups of queries, keys and values is not split");
  const prefix = findPrefix(names, hasTensor);
  const vocabularyStep = ceilTo(config.vocabSize / place.numTensorRanks, VOCABULARY_STEP);
  const firstRow = Math.min(place.tensorRank * vocabularyStep, config.vocabSize);
  const vocabulary = { first: firstRow, count: Math.min(vocabularyStep, config.vocabSize - firstRow) };
  const layers = stageLayers(config.numLayers, place);
  const own = rankConfig(config, place, layers);
  const whole = describeWeights(config, names, prefix, (plan) => plan);
  const part = describeWeights(own, names, prefix, (plan) => plan, { outputRows: vocabulary.count });
  const slices = new Slices(place);
  slices.whole(whole.embedding, part.embedding);
  slices.whole(whole.positions, part.positions);
  slices.norm(whole.norm, part.norm);
  if (!config.tieWordEmbeddings) slices.rows(whole.output.weight, part.output.weight, [vocabulary]);
  slices.rows(whole.output.bias, part.output.bias, [vocabulary]);
  for (let i = 0; i < layers.count; i++) {
    addLayer(slices, config, whole.layers[layers.first + i], part.layers[i], place);
  }
  const parsed = { config: own, weights: names, outputRows: vocabulary.count };
  return { whole: config, parsed, slices: slices.byName, vocabulary, vocabularyStep };
}

/** Stages in front take one more where they do not come out even. */
export function stageLayers(numLayers: number, { stage, numStages }: RankPlace): Range {
  const least = Math.floor(numLayers / numStages);
  const numLarger = numLayers % numStages;
  return { first: stage * least + Math.min(stage, numLarger), count: least + (stage < numLarger ? 1 : 0) };
}

function rankConfig(config: DecoderConfig, { numTensorRanks }: RankPlace, layers: Range): DecoderConfig {
  const { numHeads, numKvHeads, mlp, experts } = config;
  return Object.freeze({
    ...config,
    numLayers: layers.count,
    layers: Object.freeze(config.layers.slice(layers.first, layers.first + layers.count)),
    numHeads: numHeads / numTensorRanks,
    numKvHeads: Math.max(1, numKvHeads / numTensorRanks),
    mlp: Object.freeze({ ...mlp, intermediateSize: mlp.intermediateSize / numTensorRanks }),
    experts:
      experts &&
      Object.freeze({
        ...experts,
        intermediateSize: experts.intermediateSize / numTensorRanks,
        sharedIntermediateSize: experts.sharedIntermediateSize / numTensorRanks,
      }),
  });
}

type Layer = LayerWeights<WeightPlan>;

function addLayer(
  slices: Slices,
  config: DecoderConfig,
  whole: Layer | undefined,
  part: Layer | undefined,
  place: RankPlace,
): void {
  if (whole === undefined || part === undefined) throw new Error("a layer that the model does not have");
  for (const name of ["attentionNorm", "attentionPostNorm", "mlpNorm", "mlpPostNorm"] as const) {
    slices.norm(whole[name], part[name]);
  }
  slices.whole(whole.headNorms, part.headNorms);
  const heads = headRows(config, place);
  slices.rowsOf(whole.qkv, part.qkv, heads);
  slices.columnsOf(whole.oProj, part.oProj, place);
  if ("router" in whole.mlp && "router" in part.mlp) addExperts(slices, config, whole.mlp, part.mlp, place);
  else if (!("router" in whole.mlp) && !("router" in part.mlp)) {
    addMlp(slices, whole.mlp, part.mlp, config.mlp.isGated ? 2 : 1, place);
  }
}

function addMlp(
  slices: Slices,
  whole: Mlp<WeightPlan>,
  part: Mlp<WeightPlan>,
  numParts: number,
  place: RankPlace,
): void {
  slices.rowsOf(whole.in, part.in, innerRows(whole.in.weight.shape[0] / numParts, numParts, place));
  slices.columnsOf(whole.out, part.out, place);
}

function addExperts(
  slices: Slices,
  { experts }: DecoderConfig,
  whole: ExpertWeights<WeightPlan>,
  part: ExpertWeights<WeightPlan>,
  place: RankPlace,
): void {
  slices.whole(whole.router, part.router);
  const width = experts?.intermediateSize ?? 0;
  const ranges = innerRows(width, 2 * (experts?.numExperts ?? 0), place);
  slices.rows(whole.in, part.in, ranges);
  slices.columns(whole.out, part.out, place);
  if (whole.shared === undefined || part.shared === undefined) return;
  slices.whole(whole.shared.gate, part.shared.gate);
  addMlp(slices, whole.shared.mlp, part.shared.mlp, 2, place);
}

/** Rows of the stacked queries, keys and values. With fewer key heads than ranks, neighbours hold the same one. */
export function headRows({ numHeads, numKvHeads, headDim }: DecoderConfig, place: RankPlace): readonly Range[] {
  const { tensorRank, numTensorRanks } = place;
  const queries = (numHeads / numTensorRanks) * headDim;
  const kvHeads = Math.max(1, numKvHeads / numTensorRanks);
  const firstKv = Math.floor((tensorRank * numKvHeads) / numTensorRanks);
  const keysAt = numHeads * headDim;
  const valuesAt = keysAt + numKvHeads * headDim;
  const kv = (at: number): Range => ({ first: at + firstKv * headDim, count: kvHeads * headDim });
  return [{ first: tensorRank * queries, count: queries }, kv(keysAt), kv(valuesAt)];
}

/** The rank's share of each of `numParts` parts of `width` rows. */
export function innerRows(
  width: number,
  numParts: number,
  { tensorRank, numTensorRanks }: RankPlace,
): readonly Range[] {
  const count = width / numTensorRanks;
  return Array.from({ length: numParts }, (_, i) => ({ first: i * width + tensorRank * count, count }));
}

type Maybe<T> = T | undefined;

/** Pairs what the whole model and the rank's ask for. */
class Slices {
  readonly byName = new Map<string, WeightSlice>();
  readonly #place: RankPlace;

  constructor(place: RankPlace) {
    this.#place = place;
  }

  /** Norms of heads are repeated, for a rank less often: equal names are one source. */
  whole(whole: Maybe<WeightPlan>, part: Maybe<WeightPlan>): void {
    const wholes = bySourceName(whole);
    for (const [i, { name, shape }] of bySourceName(part).entries()) {
      const source = wholes[i];
      if (source !== undefined) this.byName.set(name, { source, shape });
    }
  }

  norm(
    whole: Maybe<{ readonly weight: WeightPlan; readonly bias: Maybe<WeightPlan> }>,
    part: Maybe<{ readonly weight: WeightPlan; readonly bias: Maybe<WeightPlan> }>,
  ): void {
    this.whole(whole?.weight, part?.weight);
    this.whole(whole?.bias, part?.bias);
  }

  rowsOf(whole: Linear<WeightPlan>, part: Linear<WeightPlan>, ranges: readonly Range[]): void {
    this.rows(whole.weight, part.weight, ranges);
    this.rows(whole.bias, part.bias, ranges);
  }

  /** `ranges` are of the rows of all sources behind each other. */
  rows(whole: Maybe<WeightPlan>, part: Maybe<WeightPlan>, ranges: readonly Range[]): void {
    let first = 0;
    for (const [i, source] of (whole?.sources ?? []).entries()) {
      const own = part?.sources[i];
      const axis = source.change === "transpose" ? 1 : 0;
      const count = source.shape[axis] ?? 0;
      const cut = { axis, ranges: within(ranges, { first, count }) } as const;
      if (own !== undefined) this.byName.set(own.name, { source, shape: own.shape, cut });
      first += count;
    }
  }

  /** The bias is added once. */
  columnsOf(whole: Linear<WeightPlan>, part: Linear<WeightPlan>, place: RankPlace): void {
    this.columns(whole.weight, part.weight, place);
    if (whole.bias === undefined || part.bias === undefined) return;
    this.whole(whole.bias, part.bias);
    if (this.#place.tensorRank === 0) return;
    for (const { name } of part.bias.sources) {
      const slice = this.byName.get(name);
      if (slice !== undefined) this.byName.set(name, { ...slice, isZero: true });
    }
  }

  columns(whole: WeightPlan, part: WeightPlan, { tensorRank, numTensorRanks }: RankPlace): void {
    for (const [i, source] of whole.sources.entries()) {
      const own = part.sources[i];
      const axis = source.change === "transpose" ? 0 : 1;
      const count = (source.shape[axis] ?? 0) / numTensorRanks;
      const cut = { axis, ranges: [{ first: tensorRank * count, count }] } as const;
      if (own !== undefined) this.byName.set(own.name, { source, shape: own.shape, cut });
    }
  }
}

function bySourceName(plan: Maybe<WeightPlan>): readonly WeightSource[] {
  return [...new Map((plan?.sources ?? []).map((source) => [source.name, source])).values()];
}

/** The parts of `ranges` inside `span`, counted from its beginning. */
export function within(ranges: readonly Range[], span: Range): readonly Range[] {
  return ranges.flatMap(({ first, count }) => {
    const from = Math.max(first, span.first);
    const end = Math.min(first + count, span.first + span.count);
    return end > from ? [{ first: from - span.first, count: end - from }] : [];
  });
}

function ceilTo(value: number, step: number): number {
  return Math.ceil(value / step) * step;
}
