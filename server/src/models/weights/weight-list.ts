/** Lists the tensors of a model once, in the order in which devices place and fill them, and names what they became. Pure. */

import type { WeightNames } from "../../formats/hf/weight-names.ts";
import type { TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { ParsedDecoder } from "../config/parse-decoder-config.ts";
import {
  type AudioStemWeights,
  type CrossWeights,
  describeWeights,
  type EncoderWeights,
  type ExpertWeights,
  findPrefix,
  type LatentWeights,
  type LayerWeights,
  type Linear,
  type Mlp,
  type ModelWeights,
  type Norm,
  type RecurrentWeights,
  type WeightPlan,
} from "./weight-plan.ts";

export interface WeightList {
  readonly plans: readonly WeightPlan[];
  /** The same plans, each in its place; an output tied to the embedding is the embedding's. */
  readonly tree: ModelWeights<WeightPlan>;
}

/** `copiesTiedOutput`: an output tied to the embedding becomes a tensor of its own. */
export function listWeights(
  { config, weights: names, outputRows, encoder }: Pick<ParsedDecoder, "config" | "weights" | "outputRows" | "encoder">,
  { tensors }: Pick<TensorSource, "tensors">,
  copiesTiedOutput = false,
): WeightList {
  const prefix = findPrefix(names, (tensor) => tensors.has(tensor));
  const own = namesOf(
    names,
    config.hiddenSize,
    config.layers.findIndex(({ mlp }) => mlp === "experts"),
    prefix,
    tensors,
  );
  const plans: WeightPlan[] = [];
  const collect = (plan: WeightPlan): WeightPlan => {
    plans.push(plan);
    return plan;
  };
  return { plans, tree: describeWeights(config, own, prefix, collect, { outputRows, copiesTiedOutput, encoder }) };
}

/** With the names of stacked experts where the files have those. */
function namesOf(
  names: WeightNames,
  hiddenSize: number,
  layer: number,
  prefix: string,
  tensors: TensorSource["tensors"],
): WeightNames {
  const at = prefix + names.layer.replace("#", String(layer));
  const { stackedExperts: experts } = names;
  if (experts === undefined || layer < 0) return withStoredCorrection(names, at, tensors);
  const out = tensors.get(at + experts.mlpOut + (experts.hasBareTensors === true ? "" : ".weight"));
  if (out === undefined) return names;
  // Some releases wrote matrices of [inputs, outputs], others the usual ones.
  const isTransposed = out.shape[1] !== hiddenSize;
  return { ...names, experts: { ...experts, isTransposed } };
}

/** GGUF files have the correction of a choice as a vector. */
function withStoredCorrection(names: WeightNames, at: string, tensors: TensorSource["tensors"]): WeightNames {
  const { experts } = names;
  if (experts?.isCorrectionRow !== true || tensors.get(`${at}${experts.correction}`)?.shape.length !== 1) return names;
  return { ...names, experts: { ...experts, isCorrectionRow: false } };
}

/** The tree with another thing in the place of each plan: `tensors` has one for each of the list's plans, in their order. */
export function nameTensors<T>({ plans, tree }: WeightList, tensors: readonly T[]): ModelWeights<T> {
  const byPlan = new Map(plans.map((plan, i) => [plan, tensors[i]]));
  return mapTree(tree, (plan) => {
    const tensor = byPlan.get(plan);
    if (tensor === undefined) throw new Error(`expected ${plans.length} tensors, got ${tensors.length}`);
    return tensor;
  });
}

function mapTree<A, B>(tree: ModelWeights<A>, map: (leaf: A) => B): ModelWeights<B> {
  const { embedding, embeddingNorm, positions, segments, relativeTable, perLayer, altUp, layers } = tree;
  const { norm, output, encoder } = tree;
  return {
    embedding: map(embedding),
    embeddingNorm: embeddingNorm && mapPair(embeddingNorm, map),
    positions: positions && map(positions),
    segments: segments && map(segments),
    relativeTable: relativeTable && {
      table: map(relativeTable.table),
      norm: relativeTable.norm && mapPair(relativeTable.norm, map),
    },
    perLayer: perLayer && {
      table: map(perLayer.table),
      projection: mapPair(perLayer.projection, map),
      norm: map(perLayer.norm),
    },
    altUp: altUp.map(({ to, from }) => ({ to: mapPair(to, map), from: mapPair(from, map) })),
    layers: layers.map((layer) => mapLayer(layer, map)),
    norm: mapPair(norm, map),
    output: mapPair(output, map),
    encoder: encoder && mapEncoder(encoder, map),
  };
}

function mapEncoder<A, B>(
  { embeddingNorm, positions, audioStem, layers, norm }: EncoderWeights<A>,
  map: (leaf: A) => B,
): EncoderWeights<B> {
  return {
    embeddingNorm: embeddingNorm && mapPair(embeddingNorm, map),
    positions: mapMaybe(positions, map),
    audioStem: audioStem && mapStem(audioStem, map),
    layers: layers.map((layer) => mapLayer(layer, map)),
    norm: mapPair(norm, map),
  };
}

function mapStem<A, B>({ first, second }: AudioStemWeights<A>, map: (leaf: A) => B): AudioStemWeights<B> {
  return { first: mapPair(first, map), second: mapPair(second, map) };
}

function mapCross<A, B>({ norm, query, keyValue, out }: CrossWeights<A>, map: (leaf: A) => B): CrossWeights<B> {
  return {
    norm: mapPair(norm, map),
    query: mapPair(query, map),
    keyValue: mapPair(keyValue, map),
    out: mapPair(out, map),
  };
}

function mapLayer<A, B>(layer: LayerWeights<A>, map: (leaf: A) => B): LayerWeights<B> {
  const { attentionNorm, qkv, headNorms, sinks, latent, recurrent, relativeBias, cross, oProj } = layer;
  const { attentionPostNorm, mlpNorm, mlp, mlpPostNorm, beside, perLayer, scale, altUp } = layer;
  return {
    attentionNorm: attentionNorm && mapPair(attentionNorm, map),
    qkv: mapPair(qkv, map),
    headNorms: mapMaybe(headNorms, map),
    sinks: mapMaybe(sinks, map),
    latent: latent && mapLatent(latent, map),
    recurrent: recurrent && mapRecurrent(recurrent, map),
    relativeBias: mapMaybe(relativeBias, map),
    cross: cross && mapCross(cross, map),
    oProj: mapPair(oProj, map),
    attentionPostNorm: attentionPostNorm && mapPair(attentionPostNorm, map),
    mlpNorm: mlpNorm && mapPair(mlpNorm, map),
    mlp: "router" in mlp ? mapExperts(mlp, map) : mapMlp(mlp, map),
    mlpPostNorm: mlpPostNorm && mapPair(mlpPostNorm, map),
    beside: beside && {
      experts: mapExperts(beside.experts, map),
      routerNorm: mapPair(beside.routerNorm, map),
      norm: mapPair(beside.norm, map),
      denseNorm: mapPair(beside.denseNorm, map),
      outNorm: mapPair(beside.outNorm, map),
      outScale: map(beside.outScale),
    },
    perLayer: perLayer && {
      gate: mapPair(perLayer.gate, map),
      out: mapPair(perLayer.out, map),
      norm: mapPair(perLayer.norm, map),
    },
    scale: mapMaybe(scale, map),
    altUp: altUp && {
      routerNorm: mapPair(altUp.routerNorm, map),
      router: map(altUp.router),
      prediction: map(altUp.prediction),
      correction: map(altUp.correction),
      outputScale: mapMaybe(altUp.outputScale, map),
      laurelLeft: mapPair(altUp.laurelLeft, map),
      laurelRight: mapPair(altUp.laurelRight, map),
      laurelNorm: mapPair(altUp.laurelNorm, map),
    },
  };
}

function mapLatent<A, B>(
  { queryNorm, queryUp, keyNorm, keyUp, valueUp }: LatentWeights<A>,
  map: (leaf: A) => B,
): LatentWeights<B> {
  return {
    queryNorm: mapMaybe(queryNorm, map),
    queryUp: mapMaybe(queryUp, map),
    keyNorm: map(keyNorm),
    keyUp: map(keyUp),
    valueUp: map(valueUp),
  };
}

function mapRecurrent<A, B>(
  { conv, convBias, timeBias, decay, skip, norm }: RecurrentWeights<A>,
  map: (leaf: A) => B,
): RecurrentWeights<B> {
  return {
    conv: map(conv),
    convBias: mapMaybe(convBias, map),
    timeBias: mapMaybe(timeBias, map),
    decay: mapMaybe(decay, map),
    skip: mapMaybe(skip, map),
    norm: mapMaybe(norm, map),
  };
}

function mapExperts<A, B>(
  { router, routerBias, correction, in: opening, inBias, out, outBias, shared }: ExpertWeights<A>,
  map: (leaf: A) => B,
): ExpertWeights<B> {
  return {
    router: map(router),
    routerBias: mapMaybe(routerBias, map),
    correction: mapMaybe(correction, map),
    in: map(opening),
    inBias: mapMaybe(inBias, map),
    out: map(out),
    outBias: mapMaybe(outBias, map),
    shared: shared && { mlp: mapMlp(shared.mlp, map), gate: mapMaybe(shared.gate, map) },
  };
}

function mapMaybe<A, B>(leaf: A | undefined, map: (leaf: A) => B): B | undefined {
  return leaf === undefined ? undefined : map(leaf);
}

function mapMlp<A, B>(mlp: Mlp<A>, map: (leaf: A) => B): Mlp<B> {
  const { xielu } = mlp;
  const parameters = xielu && {
    positive: map(xielu.positive),
    negative: map(xielu.negative),
    linear: map(xielu.linear),
  };
  return { in: mapPair(mlp.in, map), out: mapPair(mlp.out, map), xielu: parameters };
}

function mapPair<A, B>({ weight, bias }: Linear<A> | Norm<A>, map: (leaf: A) => B): Linear<B> {
  return { weight: map(weight), bias: bias === undefined ? undefined : map(bias) };
}
