/**
 * Byte-pair merging of one word (Sennrich et al. 2016): lowest rank first, leftmost among equals, in O(n log n). It can
 * be interrupted, so a word of a million characters does not block the event loop. Works on ids and knows no text.
 */

/** Merge rules in an open-addressing hash table: (left id, right id) -> rank and merged id. */
export class PairTable {
  readonly #mask: number;
  readonly #left: Int32Array;
  readonly #right: Int32Array;
  readonly #rank: Int32Array;
  readonly #merged: Int32Array;

  constructor(numPairs: number) {
    let slots = 16;
    while (slots < numPairs * 2) slots *= 2;
    this.#mask = slots - 1;
    this.#left = new Int32Array(slots).fill(-1);
    this.#right = new Int32Array(slots);
    this.#rank = new Int32Array(slots);
    this.#merged = new Int32Array(slots);
  }

  /** A pair added twice keeps its last rank. At most `numPairs` different pairs may be added. */
  add(left: number, right: number, rank: number, merged: number): void {
    const slot = this.#slot(left, right);
    this.#left[slot] = left;
    this.#right[slot] = right;
    this.#rank[slot] = rank;
    this.#merged[slot] = merged;
  }

  /** Slot of a pair, or -1: one lookup gives rank and merged id. */
  find(left: number, right: number): number {
    const slot = this.#slot(left, right);
    return this.#left[slot] === left ? slot : -1;
  }

  rankAt(slot: number): number {
    return this.#rank[slot] ?? 0;
  }

  mergedAt(slot: number): number {
    return this.#merged[slot] ?? 0;
  }

  #slot(left: number, right: number): number {
    let hash = Math.imul(left, 0x9e3779b1) ^ Math.imul(right + 1, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    let slot = (hash ^ (hash >>> 13)) & this.#mask;
    while (this.#left[slot] !== -1 && (this.#left[slot] !== left || this.#right[slot] !== right)) {
      slot = (slot + 1) & this.#mask;
    }
    return slot;
  }
}

/** @throws Error when a merge names a token that is not in the vocabulary */
export function createPairTable(
  vocabulary: ReadonlyMap<string, number>,
  merges: readonly (readonly [left: string, right: string])[],
): PairTable {
  const pairs = new PairTable(merges.length);
  merges.forEach(([left, right], rank) => {
    const [leftId = 0, rightId = 0, mergedId = 0] = [left, right, left + right].map((token) => {
      const id = vocabulary.get(token);
      if (id === undefined) throw new Error(`merges[${rank}]: token "${token}" is not in the vocabulary`);
      return id;
    });
    pairs.add(leftId, rightId, rank, mergedId);
  });
  return pairs;
}

/** Rank and position share one heap key; both stay exact in a double. */
const POSITIONS = 2 ** 28;

/** One word during merging. `start` takes the symbols, `run` merges, `finish` leaves the result. */
export class WordMerge {
  readonly #pairs: PairTable;
  #ids = new Int32Array(0);
  #previous = new Int32Array(0);
  #next = new Int32Array(0);
  /** Slot of the pair at a position, -1 for none; distinguishes stale heap entries from live ones. */
  #pair = new Int32Array(0);
  #heap = new Float64Array(0);
  #heapSize = 0;
  #length = 0;
  /** Positions below this one have pushed their pair to the heap. */
  #numOffered = 0;

  constructor(pairs: PairTable) {
    this.#pairs = pairs;
  }

  /** Space for a word of `length` symbols; the caller fills it, then calls `start(length)`. */
  reserve(length: number): Int32Array {
    if (length >= POSITIONS) throw new RangeError(`word of ${length} symbols: at most ${POSITIONS - 1} can be merged`);
    if (this.#ids.length < length) {
      const capacity = Math.max(64, length);
      this.#ids = new Int32Array(capacity);
      this.#previous = new Int32Array(capacity);
      this.#next = new Int32Array(capacity);
      this.#pair = new Int32Array(capacity);
      this.#heap = new Float64Array(capacity >> 1);
    }
    return this.#ids;
  }

  start(length: number): void {
    this.#length = length;
    this.#heapSize = 0;
    this.#numOffered = 0;
    for (let at = 0; at < length; at++) {
      this.#previous[at] = at - 1;
      this.#next[at] = at + 1 < length ? at + 1 : -1;
    }
  }

  /** Pushes and merges up to `budget` candidates; true when the word is complete. */
  run(budget: number): boolean {
    let left = budget;
    for (; left > 0 && this.#numOffered < this.#length; left--) this.#offer(this.#numOffered++);
    for (; left > 0 && this.#heapSize > 0; left--) {
      const key = this.#pop();
      const at = key % POSITIONS;
      const slot = this.#pair[at] ?? -1;
      if (slot >= 0 && this.#pairs.rankAt(slot) === (key - at) / POSITIONS) this.#merge(at, slot);
    }
    return this.#heapSize === 0 && this.#numOffered === this.#length;
  }

  /** Number of ids left; they are moved to the front of the array from `reserve`. */
  finish(): number {
    let count = 0;
    if (this.#length === 0) return 0;
    for (let at = 0; at !== -1; at = this.#next[at] ?? -1) this.#ids[count++] = this.#ids[at] ?? 0;
    return count;
  }

  #merge(at: number, slot: number): void {
    const right = this.#next[at] ?? -1;
    const after = this.#next[right] ?? -1;
    this.#ids[at] = this.#pairs.mergedAt(slot);
    this.#pair[right] = -1;
    this.#next[at] = after;
    if (after !== -1) this.#previous[after] = at;
    const before = this.#previous[at] ?? -1;
    if (before !== -1) this.#offer(before);
    this.#offer(at);
  }

  #offer(at: number): void {
    const next = this.#next[at] ?? -1;
    const slot = next === -1 ? -1 : this.#pairs.find(this.#ids[at] ?? 0, this.#ids[next] ?? 0);
    this.#pair[at] = slot;
    if (slot !== -1) this.#push(this.#pairs.rankAt(slot) * POSITIONS + at);
  }

  #push(key: number): void {
    if (this.#heapSize === this.#heap.length) this.#growHeap();
    const heap = this.#heap;
    let hole = this.#heapSize++;
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      const parentKey = heap[parent] ?? 0;
      if (parentKey <= key) break;
      heap[hole] = parentKey;
      hole = parent;
    }
    heap[hole] = key;
  }

  /**
   * Half of the word suffices for text. A merge takes one candidate and adds two, so the size stays below twice the
   * word.
   */
  #growHeap(): void {
    const heap = new Float64Array(2 * this.#heap.length);
    heap.set(this.#heap);
    this.#heap = heap;
  }

  #pop(): number {
    const heap = this.#heap;
    const top = heap[0] ?? 0;
    const size = --this.#heapSize;
    const last = heap[size] ?? 0;
    let hole = 0;
    for (;;) {
      let child = 2 * hole + 1;
      if (child >= size) break;
      if (child + 1 < size && (heap[child + 1] ?? 0) < (heap[child] ?? 0)) child++;
      const childKey = heap[child] ?? 0;
      if (childKey >= last) break;
      heap[hole] = childKey;
      hole = child;
    }
    heap[hole] = last;
    return top;
  }
}
