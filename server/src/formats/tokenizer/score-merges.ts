/**
 * Derives BPE merges from a vocabulary with scores, as SentencePiece stores it: every split of a token into two others.
 * Source: SentencePiece, bpe_model.cc: the best token first, and the leftmost of equal ones. Pure.
 */
import { PairTable } from "./byte-level-merge.ts";

interface Merge {
  readonly left: string;
  readonly right: string;
  readonly score: number;
}

/** Longer tokens result from no merge: none is trained to that length, and the number of splits grows with it. */
const MAX_TOKEN_CHARS = 256;

/** `ids` are indices into `scores`. Merges into tokens of one score have one rank: the leftmost comes first. */
export function pairTableOfScores(ids: ReadonlyMap<string, number>, scores: readonly number[]): PairTable {
  const merges = [...ids].flatMap(([token, id]) => waysToMake(token, scores[id] ?? 0, ids));
  const ranks = new Map([...new Set(merges.map(({ score }) => score))].sort((a, b) => b - a).map((s, i) => [s, i]));
  const pairs = new PairTable(merges.length);
  for (const { left, right, score } of merges) {
    pairs.add(idOf(ids, left), idOf(ids, right), ranks.get(score) ?? 0, idOf(ids, left + right));
  }
  return pairs;
}

function waysToMake(token: string, score: number, ids: ReadonlyMap<string, number>): Merge[] {
  const chars = Array.from(token);
  if (chars.length < 2 || chars.length > MAX_TOKEN_CHARS) return [];
  const ways: Merge[] = [];
  let at = 0;
  for (let i = 1; i < chars.length; i++) {
    at += chars[i - 1]?.length ?? 0;
    const left = token.slice(0, at);
    const right = token.slice(at);
    if (ids.has(left) && ids.has(right)) ways.push({ left, right, score });
  }
  return ways;
}

function idOf(ids: ReadonlyMap<string, number>, token: string): number {
  return ids.get(token) ?? 0;
}
