/**
 * Derives BPE merges from a vocabulary with scores, as SentencePiece stores it: every split of a token into two others,
 * best token first. Source: SentencePiece, and transformers' SentencePieceExtractor. Pure.
 */

interface Merge {
  readonly left: string;
  readonly right: string;
  readonly score: number;
  /** In code points, not UTF-16 units. */
  readonly leftLength: number;
  readonly rightLength: number;
}

/** Longer tokens result from no merge: none is trained to that length, and the number of splits grows with it. */
const MAX_TOKEN_CHARS = 256;

/** `ids` are indices into `scores`. */
export function mergesOfScores(ids: ReadonlyMap<string, number>, scores: readonly number[]): [string, string][] {
  const merges: Merge[] = [];
  for (const [token, id] of ids) {
    const own = waysToMake(token, scores[id] ?? 0, ids);
    merges.push(...own);
  }
  merges.sort((a, b) => b.score - a.score || b.leftLength - a.leftLength || b.rightLength - a.rightLength);
  return merges.map(({ left, right }) => [left, right]);
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
    if (ids.has(left) && ids.has(right)) {
      ways.push({ left, right, score, leftLength: i, rightLength: chars.length - i });
    }
  }
  return ways.sort((a, b) => idOf(ids, a.left) - idOf(ids, b.left) || idOf(ids, a.right) - idOf(ids, b.right));
}

function idOf(ids: ReadonlyMap<string, number>, token: string): number {
  return ids.get(token) ?? 0;
}
