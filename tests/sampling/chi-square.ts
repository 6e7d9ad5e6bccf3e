/**
 * Pearson's chi-square test of drawn tokens against a reference distribution, in double precision. Scores are rounded to f32
 * where the sampler rounds them, so that both keep the same tokens. Source: nucleus sampling (Holtzman et al. 2019), min-p
 * (Nguyen et al. 2024), repetition penalty (Keskar et al. 2019); Wilson and Hilferty 1931 for the deviate.
 */
import assert from "node:assert/strict";
import type { Sequence } from "../../server/src/engine/request/sequence.ts";

/** Draws that a bin should expect, and bins at most. */
const MIN_EXPECTED = 20;
const MAX_BINS = 512;

export interface ReferenceDistribution {
  /** Probability of each token. */
  readonly probabilities: Float64Array;
  /** Tokens that may come, most likely first. */
  readonly kept: readonly number[];
}

export function distributionRef(logits: Float32Array, sequence: Sequence): ReferenceDistribution {
  const { topK, minP } = sequence.request;
  const { topP } = sequence;
  const scores = scoresRef(logits, sequence);
  let kept = Array.from(scores, (_, id) => id).filter((id) => (scores[id] ?? 0) > Number.NEGATIVE_INFINITY);
  kept.sort((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0) || a - b);
  const best = scores[kept[0] ?? 0] ?? 0;
  const weightOf = (id: number): number => Math.exp((scores[id] ?? 0) - best);
  if (topK > 0) kept = kept.slice(0, topK);
  if (topP > 0 && topP < 1) {
    const wanted = topP * kept.reduce((sum, id) => sum + weightOf(id), 0);
    let [sum, count] = [0, 0];
    while (count < kept.length && sum < wanted) sum += weightOf(kept[count++] ?? 0);
    kept = kept.slice(0, count);
  }
  kept = kept.filter((id, i) => i === 0 || weightOf(id) >= minP);
  const total = kept.reduce((sum, id) => sum + weightOf(id), 0);
  const probabilities = new Float64Array(logits.length);
  for (const id of kept) probabilities[id] = weightOf(id) / total;
  return { probabilities, kept };
}

function scoresRef(logits: Float32Array, { request, occurrences, endIds, numOutput, guide }: Sequence): Float32Array {
  const { logitBias, temperature, repetitionPenalty, presencePenalty, frequencyPenalty } = request;
  const banned = new Set(request.badWords.flatMap((word) => (word.length === 1 ? [...word] : [])));
  if (numOutput < request.minTokens) for (const id of endIds) banned.add(id);
  return Float32Array.from(logits, (logit, id) => {
    let score = Math.fround(Math.fround(logit + (logitBias?.[id] ?? 0)) * (1 / temperature));
    const count = occurrences?.get(id);
    if (count !== undefined) {
      score = score < 0 ? score * repetitionPenalty : score / repetitionPenalty;
      if (count > 0) score -= presencePenalty + frequencyPenalty * count;
    }
    const isMasked = guide !== undefined && (((guide.mask[id >> 5] ?? 0) >>> (id & 31)) & 1) === 0;
    return isMasked || banned.has(id) ? Number.NEGATIVE_INFINITY : score;
  });
}

/** Standard normal deviate of the statistic; large where the draws do not follow the distribution. */
export function deviateOf(counts: Float64Array, { probabilities, kept }: ReferenceDistribution, what: string): number {
  const numDraws = counts.reduce((sum, count) => sum + count, 0);
  const outside = counts.findIndex((count, id) => count > 0 && probabilities[id] === 0);
  assert.equal(outside, -1, `${what}: token ${outside} may not come`);
  const least = Math.max(MIN_EXPECTED / numDraws, 1 / MAX_BINS);
  let [mass, seen, numBins, statistic] = [0, 0, 0, 0];
  let left = 1;
  for (const id of kept) {
    const probability = probabilities[id] ?? 0;
    mass += probability;
    seen += counts[id] ?? 0;
    left -= probability;
    // The last bin takes what would be too little for one of its own.
    if (mass < least || left < least) continue;
    statistic += (seen - numDraws * mass) ** 2 / (numDraws * mass);
    numBins += 1;
    [mass, seen] = [0, 0];
  }
  if (mass > 1e-12) {
    statistic += (seen - numDraws * mass) ** 2 / (numDraws * mass);
    numBins += 1;
  }
  const degrees = numBins - 1;
  if (degrees < 1) return 0;
  const spread = 2 / (9 * degrees);
  return (Math.cbrt(statistic / degrees) - (1 - spread)) / Math.sqrt(spread);
}
