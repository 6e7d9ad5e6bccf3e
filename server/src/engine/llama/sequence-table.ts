/**
 * Which sequence of libllama's memory holds which tokens. An engine names cache blocks, libllama names sequences: a step
 * tells the tokens that a sequence begins with, and the table finds the memory that already holds the most of them. It
 * continues that memory, or copies the common part. Missing tokens are computed again, so a sequence that was forgotten
 * costs time and nothing else. It computes nothing.
 */

/** Memory of sequences by number. Copies share cells. */
export interface SequenceMemory {
  /** Removes positions from `from` to `to`, without an end where that is negative. False: a part cannot be removed. */
  remove(sequence: number, from: number, to: number): boolean;
  /** `to` is empty; `end` undefined: all. */
  copy(from: number, to: number, end: number | undefined): void;
}

export interface SequenceTableOptions {
  readonly memory: SequenceMemory;
  /** At least the sequences of a step. */
  readonly numSequences: number;
  /** False: a sequence can be copied and removed as a whole only, as recurrent states are. */
  readonly canCut: boolean;
}

export interface Placement {
  readonly id: number;
  /** Tokens that its memory holds. The rest must be computed. */
  readonly numKnown: number;
}

interface Entry {
  readonly id: number;
  tokens: Int32Array;
  length: number;
  adapter: number | undefined;
  lastUse: number;
}

interface Match {
  readonly entry: Entry;
  readonly length: number;
}

/** A memory that ends in fewer tokens than this beyond a match is cut there: rejected drafts, a part of a block. */
const MAX_CUT_TOKENS = 16;

export class SequenceTable {
  readonly #memory: SequenceMemory;
  readonly #canCut: boolean;
  readonly #entries: readonly Entry[];
  /** Placed in this step. */
  readonly #claimed = new Set<Entry>();
  #clock = 0;

  constructor({ memory, numSequences, canCut }: SequenceTableOptions) {
    this.#memory = memory;
    this.#canCut = canCut;
    this.#entries = Array.from({ length: numSequences }, (_, id) => ({
      id,
      tokens: new Int32Array(0),
      length: 0,
      adapter: undefined,
      lastUse: 0,
    }));
  }

  /** Sequences with tokens, for tests. */
  get numUsed(): number {
    return this.#entries.reduce((sum, { length }) => sum + (length > 0 ? 1 : 0), 0);
  }

  /** A new step: all memories may be taken, or given up for others. */
  begin(): void {
    this.#claimed.clear();
    this.#clock += 1;
  }

  /**
   * A memory for a sequence that begins with `tokens`, computed with an adapter.
   * @param hint the memory that it was in at the last step, if that is known
   */
  place(tokens: Int32Array, adapter: number | undefined, hint?: number): Placement {
    const match = this.#continued(tokens, adapter, hint) ?? this.#longest(tokens, adapter);
    const entry = match === undefined ? this.#empty() : this.#entryFor(match);
    this.#claimed.add(entry);
    entry.adapter = adapter;
    entry.lastUse = this.#clock;
    return { id: entry.id, numKnown: entry.length };
  }

  /** Tokens were computed behind those of a placed sequence. */
  append(id: number, tokens: Int32Array): void {
    const entry = this.#entries[id];
    if (entry === undefined) throw new Error(`sequence table: there is no sequence ${id}`);
    const length = entry.length + tokens.length;
    if (length > entry.tokens.length) {
      const larger = new Int32Array(Math.max(64, 2 * length));
      larger.set(entry.tokens.subarray(0, entry.length));
      entry.tokens = larger;
    }
    entry.tokens.set(tokens, entry.length);
    entry.length = length;
  }

  /** Gives up the memory that was used longest ago, of those that this step does not use. False: there is none. */
  dropIdle(): boolean {
    const idle = this.#leastUsed((entry) => entry.length > 0);
    if (idle === undefined) return false;
    this.#clear(idle);
    return true;
  }

  /** Lets the sequences of this step share the cells of equal beginnings. Two may have computed the same one. */
  share(): void {
    if (!this.#canCut) return;
    const earlier: Entry[] = [];
    for (const entry of this.#claimed) {
      this.#shareWith(entry, earlier);
      earlier.push(entry);
    }
  }

  /** Forgets all that was computed with an adapter. */
  forgetAdapter(adapter: number): void {
    for (const entry of this.#entries) if (entry.adapter === adapter && entry.length > 0) this.#clear(entry);
  }

  #shareWith(entry: Entry, others: readonly Entry[]): void {
    const tokens = entry.tokens.subarray(0, entry.length);
    let best: Match | undefined;
    for (const other of others) {
      if (other.adapter !== entry.adapter) continue;
      const length = commonLength(other, tokens);
      if (length > (best?.length ?? 0)) best = { entry: other, length };
    }
    if (best === undefined || !this.#memory.remove(entry.id, 0, best.length)) return;
    this.#memory.copy(best.entry.id, entry.id, best.length);
  }

  /** The memory of the last step, where it still holds the tokens. */
  #continued(tokens: Int32Array, adapter: number | undefined, hint: number | undefined): Match | undefined {
    const entry = hint === undefined ? undefined : this.#entries[hint];
    if (entry === undefined || this.#claimed.has(entry) || entry.adapter !== adapter || entry.length === 0)
      return undefined;
    if (commonLength(entry, tokens) < tokens.length || !this.#mayCut(entry, tokens.length)) return undefined;
    return { entry, length: tokens.length };
  }

  #mayCut(entry: Entry, length: number): boolean {
    const numLost = entry.length - length;
    return numLost === 0 || (this.#canCut && numLost < MAX_CUT_TOKENS);
  }

  /** Among equal lengths, one that may be continued is better than one to be copied. */
  #longest(tokens: Int32Array, adapter: number | undefined): Match | undefined {
    let best: Match | undefined;
    for (const entry of this.#entries) {
      if (entry.length === 0 || entry.adapter !== adapter) continue;
      const length = commonLength(entry, tokens);
      if (length === 0 || (!this.#canCut && length < entry.length)) continue;
      const isBetter = best === undefined || length > best.length;
      const isEqual = best !== undefined && length === best.length && this.#claimed.has(best.entry);
      if (isBetter || (isEqual && !this.#claimed.has(entry))) best = { entry, length };
    }
    return best;
  }

  /** The matched memory itself, or an empty one with a copy of the match. */
  #entryFor({ entry, length }: Match): Entry {
    const isFree = !this.#claimed.has(entry);
    if (isFree && this.#mayCut(entry, length)) return this.#cut(entry, length);
    const target = this.#leastUsed((other) => other !== entry);
    if (target === undefined) {
      if (isFree) return this.#cut(entry, length);
      throw new Error("sequence table: a step has more sequences than the memory");
    }
    if (target.length > 0) this.#clear(target);
    this.#memory.copy(entry.id, target.id, length === entry.length ? undefined : length);
    this.append(target.id, entry.tokens.subarray(0, length));
    return target;
  }

  #empty(): Entry {
    const entry = this.#leastUsed(() => true);
    if (entry === undefined) throw new Error("sequence table: a step has more sequences than the memory");
    if (entry.length > 0) this.#clear(entry);
    return entry;
  }

  /** An empty one that this step does not use, else the one used longest ago. */
  #leastUsed(accepts: (entry: Entry) => boolean): Entry | undefined {
    let best: Entry | undefined;
    for (const entry of this.#entries) {
      if (this.#claimed.has(entry) || !accepts(entry)) continue;
      if (entry.length === 0) return entry;
      if (best === undefined || entry.lastUse < best.lastUse) best = entry;
    }
    return best;
  }

  #cut(entry: Entry, length: number): Entry {
    if (length === entry.length) return entry;
    if (length > 0 && this.#memory.remove(entry.id, length, -1)) entry.length = length;
    else this.#clear(entry);
    return entry;
  }

  #clear(entry: Entry): void {
    this.#memory.remove(entry.id, 0, -1);
    entry.length = 0;
  }
}

function commonLength({ tokens, length }: Pick<Entry, "tokens" | "length">, wanted: Int32Array): number {
  const end = Math.min(length, wanted.length);
  let at = 0;
  while (at < end && tokens[at] === wanted[at]) at += 1;
  return at;
}
