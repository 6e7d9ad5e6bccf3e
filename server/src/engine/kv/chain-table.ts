/**
 * Chains of full blocks by their tokens: a link is known by the link before it and its own tokens, so a chain of links is
 * a prefix. It knows neither where a link's data lies nor who uses it.
 */

export const NO_LINK = -1;
/** The parent of first links: the hash of a salt starts their chain. */
export const ROOT = -2;

/** The part of a sequence that identifies its chain of blocks. */
export interface ChainSource {
  readonly tokens: Int32Array;
  /**
   * Two numbers per token that tell apart equal ids: a hash of image content, or ids that the client gave. Tokens
   * beyond its end have none.
   */
  readonly tokenKeys: Int32Array | undefined;
  readonly request: { readonly cacheSalt: string };
}

export class ChainTable {
  readonly #blockSize: number;
  /** Hash of a chain to its last link. Another chain with that hash is a miss: tokens are compared. */
  readonly #byHash = new Map<number, number>();
  readonly #hashes: Float64Array;
  /** Parent link, ROOT for the first of a chain, NO_LINK for a link that is not in use. */
  readonly #parents: Int32Array;
  readonly #numChildren: Int32Array;
  readonly #tokens: Int32Array;
  readonly #tokenKeys: (Int32Array | undefined)[];
  /** Salt of each first link. */
  readonly #salts: (string | undefined)[];
  /** Links that are not in use. */
  readonly #free: number[];

  constructor(numLinks: number, blockSize: number) {
    this.#blockSize = blockSize;
    this.#hashes = new Float64Array(numLinks);
    this.#parents = new Int32Array(numLinks).fill(NO_LINK);
    this.#numChildren = new Int32Array(numLinks);
    this.#tokens = new Int32Array(numLinks * blockSize);
    this.#tokenKeys = new Array<Int32Array | undefined>(numLinks).fill(undefined);
    this.#salts = new Array<string | undefined>(numLinks).fill(undefined);
    this.#free = Array.from({ length: numLinks }, (_, i) => numLinks - 1 - i);
  }

  get size(): number {
    return this.#byHash.size;
  }

  /** ROOT, NO_LINK or a link. */
  parentOf(link: number): number {
    return this.#parents[link] ?? NO_LINK;
  }

  numChildren(link: number): number {
    return this.#numChildren[link] ?? 0;
  }

  /** The link of block `index` of `source` behind `parent`, or NO_LINK. */
  find(source: ChainSource, index: number, parent: number): number {
    const link = this.#byHash.get(this.#hash(source, index, parent));
    return link !== undefined && this.#matches(link, source, index, parent) ? link : NO_LINK;
  }

  /** Adds that link, or gives NO_LINK when its hash belongs to another chain: then this one ends before it. */
  add(source: ChainSource, index: number, parent: number): number {
    const hash = this.#hash(source, index, parent);
    if (this.#byHash.has(hash)) return NO_LINK;
    const link = this.#free.pop();
    if (link === undefined) throw new Error("chain table: no free link");
    const start = index * this.#blockSize;
    this.#byHash.set(hash, link);
    this.#hashes[link] = hash;
    this.#parents[link] = parent;
    this.#tokens.set(source.tokens.subarray(start, start + this.#blockSize), link * this.#blockSize);
    this.#tokenKeys[link] = keysOf(source, start, this.#blockSize)?.slice();
    if (parent === ROOT) this.#salts[link] = source.request.cacheSalt;
    else this.#numChildren[parent] = this.numChildren(parent) + 1;
    return link;
  }

  /** Forgets a link without children. */
  remove(link: number): void {
    const parent = this.parentOf(link);
    if (parent === NO_LINK || this.numChildren(link) > 0) throw new Error(`chain table: link ${link} is in use`);
    if (parent >= 0) this.#numChildren[parent] = this.numChildren(parent) - 1;
    this.#byHash.delete(this.#hashes[link] ?? 0);
    this.#parents[link] = NO_LINK;
    this.#tokenKeys[link] = undefined;
    this.#salts[link] = undefined;
    this.#free.push(link);
  }

  /** All links behind `link`, children before their parents. One look at the whole table: for rare moments. */
  descendants(link: number): number[] {
    const children = new Map<number, number[]>();
    for (const child of this.#byHash.values()) {
      const parent = this.parentOf(child);
      const siblings = children.get(parent);
      if (siblings === undefined) children.set(parent, [child]);
      else siblings.push(child);
    }
    const found = [link];
    for (const each of found) found.push(...(children.get(each) ?? []));
    return found.slice(1).reverse();
  }

  links(): Iterable<number> {
    return this.#byHash.values();
  }

  /** @throws when the counts of children or free links are off */
  checkIntegrity(): void {
    const counts = new Int32Array(this.#numChildren.length);
    for (const link of this.links()) {
      const parent = this.parentOf(link);
      if (parent === NO_LINK) throw new Error(`chain table: link ${link} has no place in a chain`);
      if (parent >= 0) counts[parent] = (counts[parent] ?? 0) + 1;
    }
    if (counts.some((count, link) => count !== this.#numChildren[link])) throw new Error("chain table: child counts");
    if (this.size + this.#free.length !== this.#parents.length) throw new Error("chain table: links are lost");
  }

  #matches(link: number, source: ChainSource, index: number, parent: number): boolean {
    if (this.#parents[link] !== parent) return false;
    if (parent === ROOT && this.#salts[link] !== source.request.cacheSalt) return false;
    const own = link * this.#blockSize;
    const start = index * this.#blockSize;
    for (let i = 0; i < this.#blockSize; i++) {
      if (this.#tokens[own + i] !== source.tokens[start + i]) return false;
    }
    return areEqual(this.#tokenKeys[link], keysOf(source, start, this.#blockSize));
  }

  /** 52 bits from two rounds of multiply-and-shift: enough that collisions, which cost a miss, do not matter. */
  #hash(source: ChainSource, index: number, parent: number): number {
    const seed = parent === ROOT ? hashText(source.request.cacheSalt) : (this.#hashes[parent] ?? 0);
    const start = index * this.#blockSize;
    const hash = hashNumbers(seed, source.tokens, start, start + this.#blockSize);
    const keys = keysOf(source, start, this.#blockSize);
    return keys === undefined ? hash : hashNumbers(hash, keys, 0, keys.length);
  }
}

/** The keys of a block's tokens; undefined when all are zero, so that text is the same with and without them. */
function keysOf({ tokenKeys }: ChainSource, start: number, count: number): Int32Array | undefined {
  if (tokenKeys === undefined || tokenKeys.length <= 2 * start) return undefined;
  const keys = tokenKeys.subarray(2 * start, 2 * (start + count));
  return keys.some((key) => key !== 0) ? keys : undefined;
}

function areEqual(a: Int32Array | undefined, b: Int32Array | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.length === b.length && a.every((value, i) => value === b[i]);
}

function hashNumbers(seed: number, numbers: Int32Array, start: number, end: number): number {
  let a = seed | 0;
  let b = Math.floor(seed / 4_294_967_296) | 0;
  for (let i = start; i < end; i++) {
    const number = numbers[i] ?? 0;
    a = Math.imul(a ^ number, 0x85ebca6b);
    a ^= a >>> 15;
    b = Math.imul(b + number, 0xc2b2ae35) ^ (a >>> 7);
    b ^= b >>> 13;
  }
  return (b & 0xfffff) * 4_294_967_296 + (a >>> 0);
}

function hashText(text: string): number {
  let a = 0x2545f491;
  for (let i = 0; i < text.length; i++) a = Math.imul(a ^ text.charCodeAt(i), 0x01000193);
  return a >>> 0;
}
