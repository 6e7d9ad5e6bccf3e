/**
 * Items by number in the order in which they are to go: lowest retention priority first, among equals the least recently
 * used. A heap that knows where each item stands, so that any of them can leave. Numbers only: it knows no blocks.
 */
export class EvictionQueue {
  readonly #heap: Int32Array;
  /** Heap index of each item, -1 when it is not in the queue. */
  readonly #places: Int32Array;
  readonly #keys: Float64Array;
  #size = 0;

  constructor(numItems: number) {
    this.#heap = new Int32Array(numItems);
    this.#places = new Int32Array(numItems).fill(-1);
    this.#keys = new Float64Array(numItems);
  }

  get size(): number {
    return this.#size;
  }

  has(item: number): boolean {
    return (this.#places[item] ?? -1) >= 0;
  }

  /** The item to go first; undefined when the queue is empty. */
  first(): number | undefined {
    return this.#size === 0 ? undefined : this.#heap[0];
  }

  /** Takes an item in, or moves it. `lastUse` counts up with every use and stays below 2^45. */
  set(item: number, priority: number, lastUse: number): void {
    this.#keys[item] = evictionKey(priority, lastUse);
    let place = this.#places[item] ?? -1;
    if (place < 0) {
      place = this.#size;
      this.#size += 1;
      this.#put(place, item);
    }
    this.#sink(this.#rise(place));
  }

  delete(item: number): void {
    const place = this.#places[item] ?? -1;
    if (place < 0) return;
    this.#size -= 1;
    this.#places[item] = -1;
    if (place === this.#size) return;
    this.#put(place, this.#heap[this.#size] ?? 0);
    this.#sink(this.#rise(place));
  }

  #rise(start: number): number {
    let place = start;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (this.#keyAt(parent) <= this.#keyAt(place)) break;
      this.#swap(parent, place);
      place = parent;
    }
    return place;
  }

  #sink(start: number): void {
    let place = start;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= this.#size) return;
      if (child + 1 < this.#size && this.#keyAt(child + 1) < this.#keyAt(child)) child += 1;
      if (this.#keyAt(place) <= this.#keyAt(child)) return;
      this.#swap(place, child);
      place = child;
    }
  }

  #keyAt(place: number): number {
    return this.#keys[this.#heap[place] ?? 0] ?? 0;
  }

  #put(place: number, item: number): void {
    this.#heap[place] = item;
    this.#places[item] = place;
  }

  #swap(a: number, b: number): void {
    const item = this.#heap[a] ?? 0;
    this.#put(a, this.#heap[b] ?? 0);
    this.#put(b, item);
  }
}

/** Both in one number: priorities of 0 to 100 above 45 bits of time fit a double exactly. */
export function evictionKey(priority: number, lastUse: number): number {
  return priority * 2 ** 45 + lastUse;
}
