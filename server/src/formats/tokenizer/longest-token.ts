/**
 * Encodes bytes by the longest token at each position, as RWKV's World vocabulary does. Source: RWKV-LM,
 * rwkv_tokenizer.py (TRIE_TOKENIZER). Knows no special tokens.
 */
import type { IdList } from "./byte-level-bpe.ts";
import type { Pauses, SectionCodec } from "./section-encoder.ts";
import type { TokenTrie } from "./token-trie.ts";

const TOKENS_PER_STEP = 16_384;

export class LongestTokenCodec implements SectionCodec {
  readonly #trie: TokenTrie;
  readonly #unknownId: number;
  readonly #encoder = new TextEncoder();

  /** `trie`: over bytes. `unknownId`: of a byte that begins no token. */
  constructor(trie: TokenTrie, unknownId: number) {
    this.#trie = trie;
    this.#unknownId = unknownId;
  }

  normalize(section: string): string {
    return section;
  }

  *encodeSection(section: string, _isFirst: boolean, out: IdList): Pauses {
    const bytes = this.#encoder.encode(section);
    let count = 0;
    for (let at = 0; at < bytes.length; ) {
      const found = this.#trie.longest(bytes, at);
      out.push(found?.token ?? this.#unknownId);
      at += found?.length ?? 1;
      if (++count % TOKENS_PER_STEP === 0) yield;
    }
  }
}
