/**
 * Decides whether a sequence should wait one step for a prefix that another sequence computes right now, e.g. a second
 * question about the same image or after the same system prompt. It knows tokens and lengths: no blocks and no cache.
 */
import type { ChainSource } from "./chain-table.ts";

/** Steps that one sequence waits at most: what it waits for may never be found. */
const MAX_WAITS = 2;

interface Waiting extends ChainSource {
  readonly group: object | undefined;
  numPrefixWaits: number;
}

interface Computing extends ChainSource {
  readonly numComputed: number;
  /** A beam search keeps what it computes to itself. */
  readonly group: object | undefined;
}

interface Computed {
  readonly sequences: readonly Computing[];
  readonly queryLengths: readonly number[];
}

export interface KnownPrefix {
  /** Blocks that are known already. */
  readonly count: number;
  /** Tokens of the sequence that may be taken from others. */
  readonly limit: number;
  readonly blockSize: number;
}

/** Whether it is left out of the plan being made. Counts how often. */
export function waitsForPrefix(sequence: Waiting, plan: Computed, known: KnownPrefix): boolean {
  if (sequence.group !== undefined || sequence.numPrefixWaits >= MAX_WAITS) return false;
  if (!isUnderWay(sequence, plan, known)) return false;
  sequence.numPrefixWaits += 1;
  return true;
}

/** Whether its next block behind those known is one that the plan computes, or a step before it. */
function isUnderWay(source: ChainSource, plan: Computed, { count, limit, blockSize }: KnownPrefix): boolean {
  const end = (count + 1) * blockSize;
  if (end > limit) return false;
  return plan.sequences.some((other, i) => {
    if (other.group !== undefined || other.numComputed + (plan.queryLengths[i] ?? 0) < end) return false;
    return startsAlike(source, other, end, blockSize);
  });
}

/** The last block first: what differs at all mostly differs there. */
function startsAlike(a: ChainSource, b: ChainSource, end: number, blockSize: number): boolean {
  if (a.request.cacheSalt !== b.request.cacheSalt) return false;
  for (let start = end - blockSize; start >= 0; start -= blockSize) {
    for (let i = start; i < start + blockSize; i++) if (!isSameToken(a, b, i)) return false;
  }
  return true;
}

function isSameToken(a: ChainSource, b: ChainSource, i: number): boolean {
  if (a.tokens[i] !== b.tokens[i]) return false;
  return keyAt(a, 2 * i) === keyAt(b, 2 * i) && keyAt(a, 2 * i + 1) === keyAt(b, 2 * i + 1);
}

function keyAt({ tokenKeys }: ChainSource, index: number): number {
  return tokenKeys?.[index] ?? 0;
}
