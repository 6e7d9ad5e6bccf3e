/**
 * Tokens of a text as byte-pair encoding makes them (Sennrich et al. 2016), from the vocabulary alone: ids follow the order
 * of merges in vocabularies of this kind, so that the pair with the lowest id merges first. No splits into words: a token
 * across two words would have to be in the vocabulary.
 */
import type { VocabularyTrie } from "./vocabulary-trie.ts";

/** Undefined: a byte of the text is no token. */
export function mergeTokens(text: Uint8Array, trie: VocabularyTrie): number[] | undefined {
  /** The first byte of each part, and the end. */
  const starts = Array.from({ length: text.length + 1 }, (_, i) => i);
  for (let at = lowestPair(text, starts, trie); at >= 0; at = lowestPair(text, starts, trie)) starts.splice(at + 1, 1);
  const tokens = starts.slice(1).map((end, i) => tokenOf(text, starts[i] ?? 0, end, trie));
  return tokens.every((token) => token !== undefined) ? tokens : undefined;
}

/** Index of the pair of parts whose token has the lowest id; -1: no pair is a token. */
function lowestPair(text: Uint8Array, starts: readonly number[], trie: VocabularyTrie): number {
  let lowest = Number.POSITIVE_INFINITY;
  let at = -1;
  for (let i = 0; i + 2 < starts.length; i++) {
    const id = tokenOf(text, starts[i] ?? 0, starts[i + 2] ?? 0, trie) ?? Number.POSITIVE_INFINITY;
    if (id >= lowest) continue;
    lowest = id;
    at = i;
  }
  return at;
}

/** The lowest id among the tokens with these bytes. */
function tokenOf(text: Uint8Array, first: number, end: number, trie: VocabularyTrie): number | undefined {
  let node = 0;
  for (let i = first; i < end; i++) {
    const child = childOf(trie, node, text[i] ?? 0);
    if (child === undefined) return undefined;
    node = child;
  }
  let lowest: number | undefined;
  for (let i = trie.tokenStarts[node] ?? 0; i < (trie.tokenStarts[node + 1] ?? 0); i++) {
    lowest = Math.min(lowest ?? Number.POSITIVE_INFINITY, trie.tokens[i] ?? 0);
  }
  return lowest;
}

function childOf({ bytes, ends }: VocabularyTrie, node: number, byte: number): number | undefined {
  const end = ends[node] ?? 0;
  for (let child = node + 1; child < end; child = ends[child] ?? end) if (bytes[child] === byte) return child;
  return undefined;
}
