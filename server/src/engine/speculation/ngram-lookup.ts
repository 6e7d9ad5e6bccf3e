/** N-gram lookup in a sequence: the tokens that followed an earlier occurrence of its last tokens. Pure. */

/** Tokens that are looked through, the newest ones: some microseconds a step. */
const MAX_LOOK_BACK = 8192;
/** One token alone stands before anything. */
const SHORTEST_MATCH = 2;

/**
 * Writes up to `count` drafts after `tokens[0, numTokens)`, in the same array, and returns their number. The longest
 * match of the last tokens wins, up to `ngramSize` of them; among equals the newest. Ids from `vocabSize` on are never
 * drafted.
 */
export function draftByNgram(
  tokens: Int32Array,
  numTokens: number,
  count: number,
  { ngramSize, vocabSize }: { readonly ngramSize: number; readonly vocabSize: number },
): number {
  const first = Math.max(0, numTokens - MAX_LOOK_BACK);
  let bestLength = Math.min(SHORTEST_MATCH, ngramSize) - 1;
  let bestEnd = -1;
  for (let end = numTokens - 1; end > first && bestLength < ngramSize; end--) {
    const length = matchLength(tokens, end, numTokens, Math.min(ngramSize, end - first));
    if (length <= bestLength) continue;
    bestLength = length;
    bestEnd = end;
  }
  if (bestEnd < 0) return 0;
  let numDrafts = 0;
  // Reads on into the drafts themselves: repetitive text continues to repeat.
  for (; numDrafts < count; numDrafts++) {
    const draft = tokens[bestEnd + numDrafts] ?? vocabSize;
    if (draft >= vocabSize) break;
    tokens[numTokens + numDrafts] = draft;
  }
  return numDrafts;
}

/** How many tokens before `a` equal those before `b`, at most `most`. */
function matchLength(tokens: Int32Array, a: number, b: number, most: number): number {
  let length = 0;
  while (length < most && tokens[a - 1 - length] === tokens[b - 1 - length]) length += 1;
  return length;
}
