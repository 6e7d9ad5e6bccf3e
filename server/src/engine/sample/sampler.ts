/**
 * Chooses the next token of a sequence from its row of logits: greedy, or a draw after temperature, top-k and top-p.
 * All memory is allocated once. Ties go to the smaller id, so a choice depends only on the row, the request and the
 * index in the sequence.
 */

import type { Sequence } from "../request/sequence.ts";
import { applyLogitsProcessors, needsLogitsProcessors } from "./logits-processors.ts";
import { uniformAt } from "./random.ts";

export class Sampler {
  readonly #vocabSize: number;
  readonly #scores: Float32Array;
  /** Candidates: ids, and their weights relative to the best one's 1. */
  readonly #ids: Int32Array;
  readonly #weights: Float64Array;

  constructor(vocabSize: number) {
    this.#vocabSize = vocabSize;
    this.#scores = new Float32Array(vocabSize);
    this.#ids = new Int32Array(vocabSize);
    this.#weights = new Float64Array(vocabSize);
  }

  /** The next token of `sequence` given `row`, [vocab]; -1 when the row holds no number to choose by. */
  sample(row: Float32Array, sequence: Sequence): number {
    const { request } = sequence;
    const isGreedy = request.topK === 1 || request.temperature === 0;
    const temperature = request.temperature === 0 ? 1 : request.temperature;
    if (isGreedy && !needsLogitsProcessors(sequence)) return argmax(row);
    this.#scores.set(row);
    applyLogitsProcessors(this.#scores, sequence, temperature);
    if (isGreedy) return argmax(this.#scores);
    const u = uniformAt(sequence.seedLow, sequence.seedHigh, sequence.numOutput);
    return this.#draw(request.topK, sequence.topP, request.minP, u);
  }

  /** The scores that a beam is ranked by: the row after the request's rules. Valid until the next call. */
  ruledScores(row: Float32Array, sequence: Sequence): Float32Array {
    const { temperature } = sequence.request;
    if (temperature === 1 && !needsLogitsProcessors(sequence)) return row;
    this.#scores.set(row);
    applyLogitsProcessors(this.#scores, sequence, temperature === 0 ? 1 : temperature);
    return this.#scores;
  }

  #draw(topK: number, topP: number, minP: number, u: number): number {
    const bestId = argmax(this.#scores);
    if (bestId < 0) return -1;
    const best = this.#scores[bestId] ?? 0;
    if (best === Number.POSITIVE_INFINITY) return bestId;
    const limitsCount = topK > 0 && topK < this.#vocabSize;
    const limitsMass = topP > 0 && topP < 1;
    if (!limitsCount && !limitsMass) {
      const all = this.#collectAll(best, minP);
      return this.#pick(all, u * this.#sumWeights(all));
    }
    const candidates = limitsCount ? this.#collectTop(topK, best) : this.#collectHeavy(topP, best);
    if (!limitsMass) return this.#pickLikely(candidates, minP, u);
    // With top-k in force the mass is that of the k best; else it is that of the whole vocabulary.
    const mass = limitsCount ? this.#sumWeights(candidates) : this.#totalMass(best);
    return this.#pickLikely(this.#countMass(candidates, topP * mass), minP, u);
  }

  /** Picks among the leading candidates that weigh `minP` at least; weights are relative to the best one's. */
  #pickLikely(candidates: number, minP: number, u: number): number {
    let count = candidates;
    while (count > 1 && (this.#weights[count - 1] ?? 0) < minP) count -= 1;
    return this.#pick(count, u * this.#sumWeights(count));
  }

  /** How many of the leading candidates it takes to weigh `wanted`; at least one. */
  #countMass(count: number, wanted: number): number {
    let sum = 0;
    for (let i = 0; i < count; i++) {
      sum += this.#weights[i] ?? 0;
      if (sum >= wanted) return i + 1;
    }
    return Math.max(1, count);
  }

  #sumWeights(count: number): number {
    let sum = 0;
    for (let i = 0; i < count; i++) sum += this.#weights[i] ?? 0;
    return sum;
  }

  #pick(count: number, target: number): number {
    let sum = 0;
    for (let i = 0; i < count; i++) {
      sum += this.#weights[i] ?? 0;
      if (sum > target) return this.#ids[i] ?? -1;
    }
    // Rounding left the target at the very end: the last candidate that can come at all.
    for (let i = count - 1; i > 0; i--) if ((this.#weights[i] ?? 0) > 0) return this.#ids[i] ?? -1;
    return this.#ids[0] ?? -1;
  }

  #collectAll(best: number, minP: number): number {
    let count = 0;
    for (let id = 0; id < this.#vocabSize; id++) {
      const weight = Math.exp((this.#scores[id] ?? 0) - best);
      if (!(weight > 0 && weight >= minP)) continue;
      this.#ids[count] = id;
      this.#weights[count] = weight;
      count += 1;
    }
    return count;
  }

  /** The k best in falling order, through a heap whose root is the worst one kept. */
  #collectTop(k: number, best: number): number {
    let count = 0;
    for (let id = 0; id < this.#vocabSize; id++) {
      if (Number.isNaN(this.#scores[id])) continue;
      if (count < k) {
        this.#ids[count] = id;
        count += 1;
        if (count === k) for (let i = (k >> 1) - 1; i >= 0; i--) this.#sink(i, k);
      } else if (this.#isBetter(id, this.#ids[0] ?? 0)) {
        this.#ids[0] = id;
        this.#sink(0, k);
      }
    }
    this.#sortByScore(count, best);
    return count;
  }

  /**
   * Every token that can belong to the heaviest set of mass `topP`, in falling order. Tokens below (1 - p) / vocab of
   * the mass weigh less than 1 - p together, so the set is complete without them; few others remain to be sorted.
   */
  #collectHeavy(topP: number, best: number): number {
    const threshold = ((1 - topP) / this.#vocabSize) * this.#totalMass(best);
    let count = 0;
    for (let id = 0; id < this.#vocabSize; id++) {
      if (!(Math.exp((this.#scores[id] ?? 0) - best) >= threshold)) continue;
      this.#ids[count] = id;
      count += 1;
    }
    this.#sortByScore(count, best);
    return count;
  }

  #totalMass(best: number): number {
    let mass = 0;
    for (let id = 0; id < this.#vocabSize; id++) {
      const weight = Math.exp((this.#scores[id] ?? 0) - best);
      if (weight > 0) mass += weight;
    }
    return mass;
  }

  #sortByScore(count: number, best: number): void {
    const scores = this.#scores;
    this.#ids.subarray(0, count).sort((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0) || a - b);
    for (let i = 0; i < count; i++) this.#weights[i] = Math.exp((scores[this.#ids[i] ?? 0] ?? 0) - best);
  }

  #isBetter(a: number, b: number): boolean {
    const scoreA = this.#scores[a] ?? 0;
    const scoreB = this.#scores[b] ?? 0;
    return scoreA > scoreB || (scoreA === scoreB && a < b);
  }

  #sink(start: number, size: number): void {
    let at = start;
    const id = this.#ids[at] ?? 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && this.#isBetter(this.#ids[child] ?? 0, this.#ids[child + 1] ?? 0)) child += 1;
      if (this.#isBetter(this.#ids[child] ?? 0, id)) break;
      this.#ids[at] = this.#ids[child] ?? 0;
      at = child;
    }
    this.#ids[at] = id;
  }
}

/** Index of the largest number, the first of equals; -1 when there is none. NaN is never chosen. */
export function argmax(row: Float32Array): number {
  let best = Number.NEGATIVE_INFINITY;
  let at = -1;
  for (let i = 0; i < row.length; i++) {
    const value = row[i] ?? Number.NaN;
    if (value > best) {
      best = value;
      at = i;
    }
  }
  return at;
}
