/**
 * Divides a step into calls of llama_decode: one adapter each, and no more tokens and rows of logits than a call takes.
 * Pure.
 */

/** Tokens of a sequence that must be computed, in order. */
export interface SequenceWork {
  /** Its number in libllama's memory. */
  readonly id: number;
  readonly adapter: number | undefined;
  /** Position of the first token. */
  readonly first: number;
  readonly tokens: Int32Array;
  /** For each token the index of its row of logits in the result, -1: none is wanted. */
  readonly rows: Int32Array;
}

export interface CallPiece {
  readonly work: SequenceWork;
  /** Tokens of the work, from `start` to `end`. */
  readonly start: number;
  readonly end: number;
}

export interface StepCall {
  readonly adapter: number | undefined;
  readonly pieces: readonly CallPiece[];
}

export interface CallLimits {
  readonly maxTokens: number;
  readonly maxRows: number;
}

/** Calls in the order in which they must run. */
export function divideStep(works: readonly SequenceWork[], limits: CallLimits): readonly StepCall[] {
  const byAdapter = new Map<number | undefined, SequenceWork[]>();
  for (const work of works) {
    const group = byAdapter.get(work.adapter);
    if (group === undefined) byAdapter.set(work.adapter, [work]);
    else group.push(work);
  }
  return [...byAdapter].flatMap(([adapter, group]) => callsOf(group, limits).map((pieces) => ({ adapter, pieces })));
}

function callsOf(works: readonly SequenceWork[], limits: CallLimits): readonly (readonly CallPiece[])[] {
  const calls = new Calls(limits);
  for (const work of works) {
    for (let at = 0; at < work.tokens.length; at++) calls.add(work, at);
  }
  return calls.list;
}

/** Takes tokens one by one, and begins a call where one is full. */
class Calls {
  readonly list: { work: SequenceWork; start: number; end: number }[][] = [];
  readonly #limits: CallLimits;
  #numTokens = Number.POSITIVE_INFINITY;
  #numRows = 0;

  constructor(limits: CallLimits) {
    this.#limits = limits;
  }

  add(work: SequenceWork, at: number): void {
    const numRows = (work.rows[at] ?? -1) >= 0 ? 1 : 0;
    if (this.#numTokens >= this.#limits.maxTokens || this.#numRows + numRows > this.#limits.maxRows) this.#begin();
    this.#numTokens += 1;
    this.#numRows += numRows;
    const pieces = this.list.at(-1) ?? [];
    const last = pieces.at(-1);
    if (last?.work === work) last.end = at + 1;
    else pieces.push({ work, start: at, end: at + 1 });
  }

  #begin(): void {
    this.list.push([]);
    this.#numTokens = 0;
    this.#numRows = 0;
  }
}
