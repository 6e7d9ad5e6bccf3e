/**
 * A trie of the tokens of a vocabulary, over bytes or UTF-16 units (Fredkin 1960). Edges are in an open-addressing hash
 * table, which takes a fraction of the memory of a map for each node. Knows no text.
 */

const ROOT = 0;
/** Units are below 2^16. */
const UNITS = 65_536;
const MIN_SLOTS = 64;

/** Edge -1: no such edge. */
export class TokenTrie {
  #keys: Float64Array = new Float64Array(MIN_SLOTS).fill(-1);
  #targets: Int32Array = new Int32Array(MIN_SLOTS);
  #numNodes = 1;
  /** Token of each node; undefined where none ends. */
  readonly #tokens: (number | undefined)[] = [undefined];

  /** A sequence that is added twice keeps its last token. An empty one is ignored. */
  add(units: ArrayLike<number>, token: number): void {
    if (units.length === 0) return;
    let node = ROOT;
    for (let i = 0; i < units.length; i++) node = this.#child(node, units[i] ?? 0);
    this.#tokens[node] = token;
  }

  get root(): number {
    return ROOT;
  }

  /** The node behind an edge, or -1. */
  next(node: number, unit: number): number {
    const slot = this.#slot(node * UNITS + unit);
    return this.#keys[slot] === -1 ? -1 : (this.#targets[slot] ?? -1);
  }

  /** The token that ends at a node. */
  tokenAt(node: number): number | undefined {
    return this.#tokens[node];
  }

  /** The longest token at a position: its id and its length, or undefined. */
  longest(units: ArrayLike<number>, from: number): { readonly token: number; readonly length: number } | undefined {
    let node = ROOT;
    let found: { token: number; length: number } | undefined;
    for (let at = from; at < units.length; at++) {
      node = this.next(node, units[at] ?? 0);
      if (node < 0) break;
      const token = this.#tokens[node];
      if (token !== undefined) found = { token, length: at + 1 - from };
    }
    return found;
  }

  #child(node: number, unit: number): number {
    const known = this.next(node, unit);
    if (known >= 0) return known;
    if (this.#numNodes * 2 > this.#keys.length) this.#grow();
    const created = this.#numNodes++;
    this.#tokens.push(undefined);
    this.#put(node * UNITS + unit, created);
    return created;
  }

  #put(key: number, target: number): void {
    const slot = this.#slot(key);
    this.#keys[slot] = key;
    this.#targets[slot] = target;
  }

  #grow(): void {
    const keys = this.#keys;
    const targets = this.#targets;
    this.#keys = new Float64Array(keys.length * 2).fill(-1);
    this.#targets = new Int32Array(keys.length * 2);
    for (const [slot, key] of keys.entries()) if (key !== -1) this.#put(key, targets[slot] ?? 0);
  }

  /** The slot of a key, or the free one where it belongs. */
  #slot(key: number): number {
    const mask = this.#keys.length - 1;
    const high = Math.floor(key / UNITS);
    let hash = Math.imul(high, 0x9e3779b1) ^ Math.imul((key % UNITS) + 1, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    let slot = (hash ^ (hash >>> 13)) & mask;
    while (this.#keys[slot] !== -1 && this.#keys[slot] !== key) slot = (slot + 1) & mask;
    return slot;
  }
}
