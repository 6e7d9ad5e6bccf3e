/** State of a model from request to request of one sequence. Time is an argument. */

interface Kept {
  state: object;
  usedMs: number;
}

export class SequenceStates {
  readonly #idleMs: number;
  readonly #kept = new Map<bigint | string, Kept>();

  /** `idleMs`: how long a sequence without a request is kept. */
  constructor(idleMs: number) {
    this.#idleMs = idleMs;
  }

  get size(): number {
    return this.#kept.size;
  }

  /** The state of a sequence; undefined when it was begun elsewhere, or before the thread was started again. */
  enter(id: bigint | string, isStart: boolean, nowMs: number): object | undefined {
    this.#forget(nowMs);
    const kept = isStart ? { state: {}, usedMs: nowMs } : this.#kept.get(id);
    if (kept === undefined) return undefined;
    kept.usedMs = nowMs;
    // Again at the end: the first of the map is the one that was used longest ago.
    this.#kept.delete(id);
    this.#kept.set(id, kept);
    return kept.state;
  }

  replace(id: bigint | string, state: object): void {
    const kept = this.#kept.get(id);
    if (kept !== undefined) kept.state = state;
  }

  leave(id: bigint | string): void {
    this.#kept.delete(id);
  }

  #forget(nowMs: number): void {
    for (const [id, { usedMs }] of this.#kept) {
      if (nowMs - usedMs < this.#idleMs) return;
      this.#kept.delete(id);
    }
  }
}
