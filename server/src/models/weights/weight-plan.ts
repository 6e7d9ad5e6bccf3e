/**
 * Which tensors of the files make up which device tensor of a decoder. Projections that read the same rows are stacked
 * into one, which halves the GEMMs of a layer. Pure: it reads no file and knows no device.
 */
import type { ExpertNames, WeightNames } from "../../formats/hf/weight-names.ts";
import type { DecoderConfig, LatentAttention } from "../config/decoder-config.ts";
import { layerHeads } from "../config/kv-bytes.ts";
import { describeAltUp, describeLayerInputs, describePerLayer, describeStreams } from "./gemma-plans.ts";
import { ModulePlans } from "./module-plans.ts";
import { describeRecurrentLayer } from "./recurrent-plan.ts";
import type {
  BesideWeights,
  CrossWeights,
  EncoderWeights,
  ExpertWeights,
  LatentWeights,
  LayerWeights,
  Linear,
  Mlp,
  ModelWeights,
  Norm,
  WeightPlan,
} from "./weight-tree.ts";

export type {
  AltUpWeights,
  AudioStemWeights,
  CrossWeights,
  EncoderWeights,
  ExpertWeights,
  LatentWeights,
  LayerWeights,
  Linear,
  Mlp,
  ModelWeights,
  Norm,
  RecurrentWeights,
  RowRun,
  WeightKind,
  WeightPlan,
  WeightSource,
  XieluWeights,
} from "./weight-tree.ts";

/**
 * Describes a model, `make` standing for each device tensor: always the same ones in the same order. `copiesTiedOutput`:
 * an output tied to the embedding becomes a tensor of its own, for devices that lay matrices out for GEMMs.
 * `outputRows`: of an output of its own, where other devices have the others.
 */
export function describeWeights<T>(
  config: DecoderConfig,
  names: WeightNames,
  prefix: string,
  make: (plan: WeightPlan) => T,
  {
    copiesTiedOutput = false,
    outputRows = config.vocabSize,
    encoder,
  }: {
    readonly copiesTiedOutput?: boolean;
    readonly outputRows?: number | undefined;
    readonly encoder?: DescribedEncoder | undefined;
  } = {},
): ModelWeights<T> {
  const { vocabSize, maxPositions } = config;
  const plans = new ModulePlans(config, names, make);
  const embedding = plans.table(`${prefix}${names.embedding}`, vocabSize);
  const output = [`${names.output}`] as const;
  const describeOutput = (): T => {
    if (!config.tieWordEmbeddings) return plans.output(names.output, outputRows);
    return copiesTiedOutput ? plans.table(`${prefix}${names.embedding}`, vocabSize, true) : embedding;
  };
  return {
    embedding,
    embeddingNorm: names.embeddingNorm === undefined ? undefined : plans.norm(`${prefix}${names.embeddingNorm}`),
    positions: names.positions === undefined ? undefined : plans.positions(`${prefix}${names.positions}`, maxPositions),
    segments: names.segments === undefined ? undefined : plans.table(`${prefix}${names.segments}`, config.numSegments),
    relativeTable: describeRelativeTable(plans, prefix),
    perLayer: describePerLayer(plans, prefix),
    altUp: describeStreams(plans, prefix),
    layers: config.layers.map((_, i) => describeLayer(plans, i, layerPrefix(names, prefix, i), prefix)),
    norm: plans.norm(postNormBefore(names, prefix, config.numLayers) ?? `${prefix}${names.norm}`),
    output: {
      weight: describeOutput(),
      bias: config.biases.output ? plans.vector(output.map((name) => [`${name}.bias`, outputRows])) : undefined,
    },
    encoder: encoder === undefined ? undefined : describeEncoder(encoder, prefix, make),
  };
}

export interface DescribedEncoder {
  readonly config: DecoderConfig;
  readonly weights: WeightNames;
}

function describeEncoder<T>(
  { config, weights: names }: DescribedEncoder,
  prefix: string,
  make: (plan: WeightPlan) => T,
): EncoderWeights<T> {
  const plans = new ModulePlans(config, names, make);
  const { hiddenSize, audioStem: stem } = config;
  const [first, second] = names.audioStem ?? [];
  const conv = (name: string, inputs: number) => plans.convolution(prefix + name, hiddenSize, inputs);
  return {
    embeddingNorm: names.embeddingNorm === undefined ? undefined : plans.norm(`${prefix}${names.embeddingNorm}`),
    positions:
      names.positions === undefined ? undefined : plans.positions(`${prefix}${names.positions}`, config.maxPositions),
    audioStem:
      stem === undefined || first === undefined || second === undefined
        ? undefined
        : { first: conv(first, stem.numMels), second: conv(second, hiddenSize) },
    layers: config.layers.map((_, i) => describeLayer(plans, i, layerPrefix(names, prefix, i), prefix)),
    norm: plans.norm(postNormBefore(names, prefix, config.numLayers) ?? `${prefix}${names.norm}`),
  };
}

function layerPrefix(names: WeightNames, prefix: string, index: number): string {
  return prefix + names.layer.replace("#", String(index));
}

/** The norm in front of a layer, where it is that of the embeddings or of the layer before; else undefined. */
function postNormBefore(names: WeightNames, prefix: string, index: number): string | undefined {
  if (names.postNorms === undefined) return undefined;
  const [embeddings, layer] = names.postNorms;
  return index === 0 ? `${prefix}${embeddings}` : `${layerPrefix(names, prefix, index - 1)}${layer}`;
}

function frontNorm(names: WeightNames, prefix: string, index: number): string | undefined {
  if (names.hasBareFirstLayer === true && index === 0) return undefined;
  const own = names.attentionNorm === undefined ? undefined : layerPrefix(names, prefix, index) + names.attentionNorm;
  return postNormBefore(names, prefix, index) ?? own;
}

/** The first prefix of an architecture under which `has` finds the embedding; the first of all when none does. */
export function findPrefix(names: WeightNames, has: (tensor: string) => boolean): string {
  const found = names.prefixes.find((prefix) => has(`${prefix}${names.embedding}.weight`));
  return found ?? names.prefixes[0] ?? "";
}

/** @param inputSize columns of the projections of queries, keys and values */
export function describeLayer<T>(
  plans: ModulePlans<T>,
  index: number,
  at: string,
  prefix: string,
  inputSize: number = plans.config.hiddenSize,
): LayerWeights<T> {
  const { config, names } = plans;
  const { hiddenSize, numHeads, biases, latent } = config;
  const front = frontNorm(names, prefix, index);
  const layer = config.layers[index];
  const { headDim, numKvHeads } = layerHeads(config, layer);
  const isShared = layer?.kvSource !== undefined;
  const attendedWidth = numHeads * (latent?.valueDims ?? headDim);
  if (layer?.isRecurrent === true) return { ...describeRecurrentLayer(plans, at), ...describeRest(plans, index, at) };
  const { headNorms, sinks } = names;
  return {
    attentionNorm: front === undefined ? undefined : plans.norm(front),
    qkv: describeQkv(plans, index, at, inputSize),
    recurrent: undefined,
    latent: describeLatent(plans, at),
    headNorms:
      headNorms === undefined || config.headNorm === undefined
        ? undefined
        : plans.headNorms([at + headNorms[0], at + headNorms[1]], { numKvHeads: isShared ? 0 : numKvHeads, headDim }),
    relativeBias: describeRelativeBias(plans, index, at),
    cross: describeCross(plans, at),
    sinks: sinks === undefined ? undefined : plans.named(at + sinks, [numHeads]),
    oProj: plans.linear([at + names.oProj], [hiddenSize], attendedWidth, biases.oProj),
    ...describeRest(plans, index, at),
  };
}

function describeQkv<T>(plans: ModulePlans<T>, index: number, at: string, inputSize: number): Linear<T> {
  const { config, names } = plans;
  const { numHeads, latent, hasOutputGate } = config;
  const layer = config.layers[index];
  const { headDim, width: kvWidth } = layerHeads(config, layer);
  const queryWidth = numHeads * headDim;
  const hasBias = config.biases.qkv;
  const modules = qkvOf(names, layer).map((name) => at + name);
  const rows = latent === undefined ? split(names.qkv, [queryWidth, kvWidth, kvWidth]) : latentRows(config, latent);
  const [first = ""] = modules;
  if (hasOutputGate && names.outputGate === undefined) return plans.gatedQkv(modules, hasBias);
  if (names.outputGate !== undefined)
    return plans.linear([...modules, at + names.outputGate], [...rows, queryWidth], inputSize, hasBias);
  if (names.hasGroupedQkv === true) return plans.groupedQkv(first, hasBias);
  if (layer?.kvSource !== undefined) return plans.linear([first], [queryWidth], inputSize, hasBias);
  return plans.linear(modules, rows, inputSize, hasBias);
}

/** Keys are the values too in some layers, before their norms (Gemma 4). */
function qkvOf(
  { qkv, isValueKey }: WeightNames,
  layer: DecoderConfig["layers"][number] | undefined,
): readonly string[] {
  const [queries = "", keys = ""] = qkv;
  return isValueKey === true && layer?.window === undefined ? [queries, keys, keys] : qkv;
}

function describeBeside<T>(plans: ModulePlans<T>, at: string): BesideWeights<T> | undefined {
  const { config, names } = plans;
  const { hiddenSize, hasExpertsBeside, experts } = config;
  const { beside } = names.experts ?? {};
  if (!hasExpertsBeside || names.experts === undefined || experts === undefined || beside === undefined)
    return undefined;
  return {
    experts: describeExperts(plans, names.experts, at),
    routerNorm: { weight: plans.named(at + beside.routerNorm, [hiddenSize]), bias: undefined },
    norm: plans.norm(at + beside.norm),
    denseNorm: plans.norm(at + beside.denseNorm),
    outNorm: plans.norm(at + beside.outNorm),
    outScale: plans.named(at + beside.outScale, [experts.numExperts]),
  };
}

function describeRelativeBias<T>(plans: ModulePlans<T>, index: number, at: string): T | undefined {
  const { config, names } = plans;
  const { relativeBias: table } = names;
  if (config.relativeBias === undefined || table === undefined) return undefined;
  if (table.layers === "first" && index > 0) return undefined;
  return plans.named(`${at}${table.name}.weight`, [config.relativeBias.numBuckets, config.numHeads]);
}

function describeRelativeTable<T>(plans: ModulePlans<T>, prefix: string): ModelWeights<T>["relativeTable"] {
  const { config, names } = plans;
  const { relativeTable } = names;
  if (config.positionBuckets === undefined || relativeTable === undefined) return undefined;
  const { name, norm } = relativeTable;
  return {
    table: plans.table(prefix + name, 2 * config.positionBuckets.span),
    norm: norm === undefined ? undefined : plans.norm(prefix + norm),
  };
}

function describeCross<T>(plans: ModulePlans<T>, at: string): CrossWeights<T> | undefined {
  const { config, names } = plans;
  const { cross } = names;
  if (!config.hasCrossAttention || cross === undefined) return undefined;
  const { hiddenSize, numHeads, numKvHeads, headDim, biases } = config;
  const [width, kvWidth] = [numHeads * headDim, numKvHeads * headDim];
  return {
    norm: plans.norm(at + cross.norm),
    query: plans.linear([at + cross.query], [width], hiddenSize, biases.qkv),
    keyValue: plans.linear(
      cross.keyValue.map((name) => at + name),
      [kvWidth, kvWidth],
      hiddenSize,
      biases.qkv,
    ),
    out: plans.linear([at + cross.out], [hiddenSize], width, biases.oProj),
  };
}

/** A layer from the end of its attention on. */
function describeRest<T>(
  plans: ModulePlans<T>,
  index: number,
  at: string,
): Pick<
  LayerWeights<T>,
  "attentionPostNorm" | "mlpNorm" | "mlp" | "mlpPostNorm" | "beside" | "perLayer" | "scale" | "altUp"
> {
  const { config, names } = plans;
  const norm = (name: string | undefined): Norm<T> | undefined =>
    name === undefined ? undefined : plans.norm(at + name);
  const layer = config.layers[index];
  const hasExperts = layer?.mlp === "experts" && names.experts !== undefined;
  const mlpIn = names.mlpIn.map((name) => at + name);
  return {
    attentionPostNorm: norm(names.attentionPostNorm),
    mlpNorm: norm(names.mlpNorm),
    mlp: hasExperts
      ? describeExperts(plans, names.experts, at)
      : describeMlp(plans, mlpIn, at + names.mlpOut, layer?.mlpWidth ?? config.mlp.intermediateSize, at),
    mlpPostNorm: norm(names.mlpPostNorm),
    beside: describeBeside(plans, at),
    perLayer: describeLayerInputs(plans, at),
    scale:
      names.layerScale === undefined || !config.hasLayerScale ? undefined : plans.named(at + names.layerScale, [1]),
    altUp: describeAltUp(plans, at),
  };
}

function latentRows({ numHeads }: DecoderConfig, latent: LatentAttention): readonly number[] {
  const { queryRank, keyRank, nopeDims, ropeDims } = latent;
  return [queryRank ?? numHeads * (nopeDims + ropeDims), keyRank + ropeDims];
}

function describeLatent<T>(plans: ModulePlans<T>, at: string): LatentWeights<T> | undefined {
  const { config, names } = plans;
  const { latent, numHeads } = config;
  if (latent === undefined || names.latent === undefined) return undefined;
  const { queryRank, keyRank, nopeDims, ropeDims, valueDims } = latent;
  const { queryNorm, queryUp, keyNorm, keyValueUp } = names.latent;
  const queryRows = numHeads * (nopeDims + ropeDims);
  return {
    queryNorm: queryRank === undefined ? undefined : plans.vector([[`${at}${queryNorm}.weight`, queryRank]]),
    queryUp: queryRank === undefined ? undefined : plans.matrix([at + queryUp], [queryRows], queryRank),
    keyNorm: plans.vector([[`${at}${keyNorm}.weight`, keyRank]]),
    keyUp: plans.headRuns(at + keyValueUp, { first: 0, count: nopeDims }, true),
    valueUp: plans.headRuns(at + keyValueUp, { first: nopeDims, count: valueDims }, false),
  };
}

function describeMlp<T>(
  plans: ModulePlans<T>,
  mlpIn: readonly string[],
  mlpOut: string,
  width: number,
  at = "",
): Mlp<T> {
  const { hiddenSize, biases, mlp } = plans.config;
  const xielu = mlp.activation === "xielu" ? plans.names.xielu : undefined;
  const one = (name: string, stored: readonly number[]): T => plans.named(at + name, [1], stored);
  return {
    in: plans.linear(mlpIn, split(mlpIn, mlp.isGated ? [width, width] : [width]), hiddenSize, biases.mlp),
    out: plans.linear([mlpOut], [hiddenSize], width, biases.mlp),
    xielu: xielu && {
      positive: one(xielu.positive, [1]),
      negative: one(xielu.negative, [1]),
      linear: one(xielu.linear, []),
    },
  };
}

function describeExperts<T>(plans: ModulePlans<T>, names: ExpertNames, at: string): ExpertWeights<T> {
  const { config } = plans;
  const { hiddenSize, experts } = config;
  const width = experts?.intermediateSize ?? 0;
  const within = (name: string): string => at + name;
  const { sharedIn, sharedOut, sharedGate, correction, hasBias = false } = names;
  const [numExperts, sharedWidth] = [experts?.numExperts ?? 0, experts?.sharedIntermediateSize ?? 0];
  const inRows = split(names.mlpIn, [width, width]);
  return {
    // A choice between experts should not change with the type of the matrices.
    router: plans.matrix([at + names.router], [numExperts], hiddenSize, "exact"),
    routerBias: names.hasRouterBias === true ? plans.vector([[`${at}${names.router}.bias`, numExperts]]) : undefined,
    correction:
      correction === undefined || experts?.routing?.hasCorrection !== true
        ? undefined
        : plans.named(at + correction, [numExperts], names.isCorrectionRow === true ? [1, numExperts] : [numExperts]),
    in: plans.experts(names.mlpIn.map(within), inRows, hiddenSize),
    inBias: hasBias ? plans.expertBiases(names.mlpIn.map(within), inRows) : undefined,
    out: plans.experts([at + names.mlpOut], [hiddenSize], width),
    outBias: hasBias ? plans.expertBiases([at + names.mlpOut], [hiddenSize]) : undefined,
    shared:
      sharedIn !== undefined && sharedOut !== undefined && sharedWidth > 0
        ? {
            mlp: describeMlp(plans, sharedIn.map(within), at + sharedOut, sharedWidth),
            gate: sharedGate === undefined ? undefined : plans.matrix([at + sharedGate], [1], hiddenSize, "exact"),
          }
        : undefined,
  };
}

/** Rows of each module: as many parts as there are names, or all in one. */
function split(names: readonly string[], parts: readonly number[]): readonly number[] {
  return names.length === parts.length ? parts : [parts.reduce((sum, rows) => sum + rows, 0)];
}
