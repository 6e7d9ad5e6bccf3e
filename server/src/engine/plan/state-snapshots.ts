/**
 * Which links of the prefix cache have a snapshot of the state behind their tokens, for models with recurrent layers. A slot
 * for each; the one that was used longest ago gives way. It knows links and slots alone, and no memory.
 */
export class StateSnapshots {
  readonly #capacity: number;
  readonly #free: number[];
  /** Slot of each link, the one used last at the end. */
  readonly #slots = new Map<number, number>();

  /** Slots are `first` to `first + count - 1`. */
  constructor(first: number, count: number) {
    this.#capacity = count;
    this.#free = Array.from({ length: count }, (_, i) => first + count - 1 - i);
  }

  get isEnabled(): boolean {
    return this.#capacity > 0;
  }

  /** How many links of a chain may be taken: those up to the last with a snapshot. */
  longest(links: readonly number[]): number {
    return links.findLastIndex((link) => this.#slots.has(link)) + 1;
  }

  /** The slot of a link, which counts as used now; undefined if it has none. */
  use(link: number): number | undefined {
    const slot = this.#slots.get(link);
    if (slot === undefined) return undefined;
    this.#slots.delete(link);
    this.#slots.set(link, slot);
    return slot;
  }

  /** A slot to copy the state to; undefined if the link has a snapshot. */
  take(link: number): number | undefined {
    if (!this.isEnabled || this.use(link) !== undefined) return undefined;
    const slot = this.#free.pop() ?? this.#dropOldest();
    this.#slots.set(link, slot);
    return slot;
  }

  /** The prefix cache knows the link no more. */
  forget(link: number): void {
    const slot = this.#slots.get(link);
    if (slot === undefined) return;
    this.#slots.delete(link);
    this.#free.push(slot);
  }

  /** @throws when a slot is lost or held twice */
  checkIntegrity(): void {
    const all = new Set([...this.#free, ...this.#slots.values()]);
    if (all.size === this.#capacity && this.#free.length + this.#slots.size === this.#capacity) return;
    throw new Error(`state snapshots: ${this.#slots.size} held and ${this.#free.length} free of ${this.#capacity}`);
  }

  #dropOldest(): number {
    const [oldest] = this.#slots;
    if (oldest === undefined) throw new Error("state snapshots: no slot");
    this.#slots.delete(oldest[0]);
    return oldest[1];
  }
}

/** The sequence whose chunk is chosen. */
interface Chunked {
  readonly numComputed: number;
  readonly numTokens: number;
  /** Tokens that it shares with another: a snapshot behind them serves a third. */
  readonly numShared: number;
}

/**
 * Tokens of the next chunk, of `length` at most: chunks end where a snapshot is of use: at the end of what others begin
 * with, at the last whole block that a repeated prompt may take, and at ends of blocks where the budget cuts anyway.
 */
export function chunkToSnapshot({ numComputed, numTokens, numShared }: Chunked, length: number, block: number): number {
  const end = numComputed + length;
  const lastWhole = Math.floor((numTokens - 1) / block) * block;
  const stops = [numShared, lastWhole].filter((stop) => stop > numComputed && stop < end);
  if (stops.length > 0) return Math.min(...stops) - numComputed;
  const whole = Math.floor(end / block) * block;
  return end < numTokens && whole > numComputed ? whole - numComputed : length;
}
