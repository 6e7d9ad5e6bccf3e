/** A tokenizer of any size for models of random weights: byte-level BPE whose tokens are short strings of ASCII. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { BYTE_TO_CHAR } from "../../../server/src/formats/tokenizer/byte-level-alphabet.ts";

const PRINTED = /^[!-~ĠĊ]$/;

/** Writes tokenizer.json with `size` tokens: `<s>`, `</s>`, single bytes, then pairs, triples and so on. */
export function writeVocabulary(folder: string, size: number): void {
  const characters = BYTE_TO_CHAR.filter((character) => PRINTED.test(character));
  const others = BYTE_TO_CHAR.filter((character) => !PRINTED.test(character));
  const tokens = ["<s>", "</s>", ...others, ...characters];
  const merges: [string, string][] = [];
  for (let left = 2 + others.length; tokens.length < size; left++) {
    for (const right of characters) {
      if (tokens.length === size) break;
      const first = tokens[left] ?? "";
      tokens.push(first + right);
      merges.push([first, right]);
    }
  }
  const special = ["<s>", "</s>"].map((content, id) => ({
    id,
    content,
    ...{ single_word: false, lstrip: false, rstrip: false, normalized: false, special: true },
  }));
  const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]));
  const tokenizer = {
    ...{ version: "1.0", truncation: null, padding: null, added_tokens: special, normalizer: null },
    ...{ pre_tokenizer: bytes, post_processor: null, decoder: bytes },
    model: { type: "BPE", dropout: null, unk_token: null, fuse_unk: false, byte_fallback: false, vocab, merges },
  };
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
}
