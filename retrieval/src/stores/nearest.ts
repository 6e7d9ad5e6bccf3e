/**
 * Exact k-nearest-neighbour search over a matrix. Source: brute force with a bounded heap, Knuth 1998, section 5.2.3.
 * Pure.
 */
import type { Metric } from "./vector-store.ts";

export interface Scored {
  readonly row: number;
  readonly score: number;
}

export interface Matrix {
  /** Row-major. */
  readonly values: Float32Array;
  readonly dimensions: number;
  readonly numRows: number;
  /** Euclidean norm of each row's vector. */
  readonly lengths: Float64Array;
}

/** Best first; ties by row. `isWanted` filters rows. */
export function nearest(
  matrix: Matrix,
  vector: Float32Array,
  options: { readonly k: number; readonly metric: Metric; readonly isWanted: ((row: number) => boolean) | undefined },
): readonly Scored[] {
  const { k, metric, isWanted } = options;
  const best = new BestRows(k);
  const length = lengthOf(vector);
  for (let row = 0; row < matrix.numRows; row++) {
    if (isWanted !== undefined && !isWanted(row)) continue;
    best.add(row, scoreOf(matrix, row, vector, metric, length));
  }
  return best.sorted();
}

export function lengthOf(vector: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < vector.length; i++) sum += (vector[i] ?? 0) ** 2;
  return Math.sqrt(sum);
}

function scoreOf(matrix: Matrix, row: number, vector: Float32Array, metric: Metric, length: number): number {
  const { values, dimensions, lengths } = matrix;
  const first = row * dimensions;
  if (metric === "l2") {
    let sum = 0;
    for (let i = 0; i < dimensions; i++) {
      const difference = (values[first + i] ?? 0) - (vector[i] ?? 0);
      sum += difference * difference;
    }
    return -Math.sqrt(sum);
  }
  let dot = 0;
  for (let i = 0; i < dimensions; i++) dot += (values[first + i] ?? 0) * (vector[i] ?? 0);
  if (metric === "dot") return dot;
  const scale = length * (lengths[row] ?? 0);
  return scale === 0 ? 0 : dot / scale;
}

/** A heap with the worst kept row on top. */
class BestRows {
  readonly #k: number;
  readonly #heap: Scored[] = [];

  constructor(k: number) {
    this.#k = k;
  }

  add(row: number, score: number): void {
    const worst = this.#heap[0];
    if (this.#heap.length < this.#k) {
      this.#heap.push({ row, score });
      this.#rise(this.#heap.length - 1);
    } else if (worst !== undefined && score > worst.score) {
      this.#heap[0] = { row, score };
      this.#sink();
    }
  }

  sorted(): readonly Scored[] {
    return this.#heap.sort((a, b) => b.score - a.score || a.row - b.row);
  }

  #rise(start: number): void {
    for (let at = start; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (!this.#isWorse(at, parent)) return;
      this.#swap(at, parent);
      at = parent;
    }
  }

  #sink(): void {
    for (let at = 0; ; ) {
      const left = 2 * at + 1;
      let worst = at;
      if (left < this.#heap.length && this.#isWorse(left, worst)) worst = left;
      if (left + 1 < this.#heap.length && this.#isWorse(left + 1, worst)) worst = left + 1;
      if (worst === at) return;
      this.#swap(at, worst);
      at = worst;
    }
  }

  #isWorse(a: number, b: number): boolean {
    const [first, second] = [this.#heap[a], this.#heap[b]];
    if (first === undefined || second === undefined) return false;
    return first.score < second.score || (first.score === second.score && first.row > second.row);
  }

  #swap(a: number, b: number): void {
    const [first, second] = [this.#heap[a], this.#heap[b]];
    if (first === undefined || second === undefined) return;
    this.#heap[a] = second;
    this.#heap[b] = first;
  }
}
