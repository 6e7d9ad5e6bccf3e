/** All that grammars need of a tokenizer, in memory that a model's mask threads share: only the first one reads the file. */
import { type PackedTokens, packTokens } from "./matcher/packed-tokens.ts";
import { type VocabularyTrie, vocabularyTrie } from "./matcher/vocabulary-trie.ts";
import { tokenBytes } from "./token-bytes.ts";
import type { Vocabulary } from "./tokenizer-vocabulary.ts";

export interface GuideVocabulary extends Pick<Vocabulary, "specials"> {
  readonly tokens: PackedTokens;
  readonly trie: VocabularyTrie;
}

/** @param vocabSize width of the logits, which may exceed the tokenizer's vocabulary */
export function shareVocabulary(vocabulary: Vocabulary, vocabSize: number): GuideVocabulary {
  const tokens = tokenBytes(vocabulary, vocabSize);
  const { numNodes, bytes, depths, ends, tokenStarts, tokens: ids } = vocabularyTrie(tokens);
  const packed = packTokens(tokens);
  return {
    specials: vocabulary.specials,
    tokens: { bytes: shared(packed.bytes, Uint8Array), starts: shared(packed.starts, Int32Array) },
    trie: {
      numNodes,
      bytes: shared(bytes, Uint8Array),
      depths: shared(depths, Uint16Array),
      ends: shared(ends, Int32Array),
      tokenStarts: shared(tokenStarts, Int32Array),
      tokens: shared(ids, Int32Array),
    },
  };
}

type Numbers = ArrayLike<number> & { readonly byteLength: number; set(from: ArrayLike<number>): void };

function shared<T extends Numbers>(from: T, Type: new (buffer: SharedArrayBuffer) => T): T {
  const copy = new Type(new SharedArrayBuffer(from.byteLength));
  copy.set(from);
  return copy;
}
