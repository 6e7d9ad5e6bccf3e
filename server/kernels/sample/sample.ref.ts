/**
 * Reference of sampling in double precision: logits processors, the kept set, the draw by inversion. Source: nucleus
 * sampling (Holtzman et al. 2019), min-p (Nguyen et al. 2024), repetition penalty (Keskar et al. 2019).
 */
import { COUNT_SEEN, type SampleParams } from "./sample-params.ts";

export interface SampleRef {
  readonly logits: Float32Array; // [vocab]
  readonly params: SampleParams;
  readonly counts?: Uint16Array;
  readonly bias?: Float32Array;
  readonly mask?: Uint32Array;
  /** Draw along the ids instead of along falling scores: what is done with more tokens than can be put in order. */
  readonly byId?: boolean;
}

export interface SampledRef {
  readonly token: number;
  readonly logProb: number;
}

export function sampleRef(args: SampleRef): SampledRef {
  const { logits, params, byId = false } = args;
  const scores = Array.from(logits, (logit, id) => ruledRef(args, logit, id));
  const order = scores.map((_, id) => id).filter((id) => (scores[id] ?? 0) > Number.NEGATIVE_INFINITY);
  order.sort((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0) || a - b);
  const best = order[0];
  if (best === undefined) return { token: -1, logProb: 0 };
  const token = params.isGreedy ? best : draw(params, scores, order, byId);
  const largest = logits.reduce((most, logit) => Math.max(most, logit), Number.NEGATIVE_INFINITY);
  const total = logits.reduce((sum, logit) => sum + Math.exp(logit - largest), 0);
  return { token, logProb: (logits[token] ?? 0) - largest - Math.log(total) };
}

function ruledRef({ params, counts, bias, mask }: SampleRef, logit: number, id: number): number {
  let score = (logit + (bias?.[id] ?? 0)) * (params.temperature > 0 ? 1 / params.temperature : 1);
  const count = counts?.[id] ?? 0;
  if (count !== 0) score = score < 0 ? score * params.repetitionPenalty : score / params.repetitionPenalty;
  const outputs = count & (COUNT_SEEN - 1);
  if (outputs > 0) score -= params.presencePenalty + params.frequencyPenalty * outputs;
  if (params.banned.includes(id)) return Number.NEGATIVE_INFINITY;
  if (mask !== undefined && (((mask[id >> 5] ?? 0) >>> (id & 31)) & 1) === 0) return Number.NEGATIVE_INFINITY;
  return score;
}

function draw(params: SampleParams, scores: readonly number[], order: readonly number[], byId: boolean): number {
  const best = scores[order[0] ?? 0] ?? 0;
  const weightOf = (id: number): number => Math.exp((scores[id] ?? 0) - best);
  const sumOf = (ids: readonly number[]): number => ids.reduce((sum, id) => sum + weightOf(id), 0);
  const limitsMass = params.topP > 0 && params.topP < 1;
  let kept = params.topK > 0 ? order.slice(0, params.topK) : order.slice();
  if (limitsMass) kept = kept.slice(0, countMass(kept, weightOf, params.topP * sumOf(kept)));
  kept = kept.filter((id, i) => i === 0 || weightOf(id) >= params.minP);
  if (byId) kept.sort((a, b) => a - b);
  const target = uniformRef(params.seedLow, params.seedHigh, params.index) * sumOf(kept);
  let sum = 0;
  for (const id of kept) {
    sum += weightOf(id);
    if (sum > target) return id;
  }
  return kept[kept.length - 1] ?? -1;
}

function countMass(ids: readonly number[], weightOf: (id: number) => number, wanted: number): number {
  let sum = 0;
  for (const [i, id] of ids.entries()) {
    sum += weightOf(id);
    if (sum >= wanted) return i + 1;
  }
  return ids.length;
}

/** Uniform in [0, 1), 53 bits, by seed and index. */
export function uniformRef(seedLow: number, seedHigh: number, index: number): number {
  const a = mix(mix(seedLow ^ Math.imul(index, 0x9e3779b1)) ^ seedHigh);
  const b = mix(mix(seedHigh ^ Math.imul(index, 0x85ebca77) ^ 0x5bd1e995) ^ seedLow ^ a);
  return ((a >>> 5) * 2 ** 26 + (b >>> 6)) / 2 ** 53;
}

function mix(value: number): number {
  let x = value | 0;
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
  return x ^ (x >>> 16);
}
