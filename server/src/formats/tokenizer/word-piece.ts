/**
 * WordPiece with BERT's normalization: words by white space and punctuation, each the longest tokens from its start, or
 * one unknown token. Sources: Devlin et al. 2018, google-research/bert tokenization.py; llama.cpp's order of the steps.
 */
import type { IdList } from "./byte-level-bpe.ts";
import type { Pauses, SectionCodec } from "./section-encoder.ts";
import type { TokenTrie } from "./token-trie.ts";

export interface WordPieceRules {
  /** UTF-16 units of tokens; those that start a word begin with U+2581. */
  readonly trie: TokenTrie;
  readonly unknownId: number;
  readonly lowersCase: boolean;
  readonly stripsAccents: boolean;
}

const MARK = "\u2581";
/** Words between two pauses: some milliseconds. */
const WORDS_PER_STEP = 4096;

/** BERT's Chinese characters, each a word. The sixth range begins where the tokenizers library has it. */
const CHINESE =
  "\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}";
/** Punctuation of Unicode, symbols of ASCII, and Chinese: each is a word. */
const WORD = new RegExp(`[\\p{P}$+<=>^\`|~${CHINESE}]|[^\\p{White_Space}\\p{P}$+<=>^\`|~${CHINESE}]+`, "gu");
/** NUL, replacement characters, and control characters that are no white space. */
const DROPPED = /[\0\ufffd]|(?!\p{White_Space})[\p{Cc}\p{Cf}\p{Co}]/gu;
const ACCENTS = /\p{M}/gu;

export class WordPieceCodec implements SectionCodec {
  readonly #rules: WordPieceRules;

  constructor(rules: WordPieceRules) {
    this.#rules = rules;
  }

  normalize(section: string): string {
    return section;
  }

  *encodeSection(section: string, _isFirst: boolean, out: IdList): Pauses {
    let count = 0;
    for (const [word] of this.#cleaned(section).matchAll(WORD)) {
      this.#encodeWord(word, out);
      if (++count % WORDS_PER_STEP === 0) yield;
    }
  }

  #cleaned(section: string): string {
    const { lowersCase, stripsAccents } = this.#rules;
    const plain = (stripsAccents ? section.normalize("NFD") : section).replaceAll(DROPPED, "");
    const bare = stripsAccents ? plain.replaceAll(ACCENTS, "") : plain;
    return lowersCase ? bare.toLowerCase() : bare;
  }

  #encodeWord(word: string, out: IdList): void {
    const { trie, unknownId } = this.#rules;
    const marked = MARK + word;
    const units = Uint16Array.from({ length: marked.length }, (_, i) => marked.charCodeAt(i));
    const ids: number[] = [];
    for (let at = 0; at < units.length; ) {
      const found = trie.longest(units, at);
      if (found === undefined) {
        out.push(unknownId);
        return;
      }
      ids.push(found.token);
      at += found.length;
    }
    for (const id of ids) out.push(id);
  }
}
