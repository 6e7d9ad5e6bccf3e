import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { testSize } from "../../../../tests/support/long-tests.ts";
import { createRandom } from "../../../../tests/support/random.ts";
import { type Llama, openLlama } from "../../native/llama/llama.ts";
import { PrecompiledCharsmap } from "../tokenizer/precompiled-charsmap.ts";
import { charsmapOf } from "./charsmap.test-support.ts";
import {
  BYTE_TOKENS,
  characterMerges,
  type Keys,
  libraryIds,
  ourIds,
  ourTokenizer,
  randomTexts,
  SPECIAL_TOKENS,
  typesOf,
} from "./tokenizer-parity.test-support.ts";

const folder = mkdtempSync(join(tmpdir(), "tokenizer-kinds-"));
after(() => rmSync(folder, { recursive: true }));

const TEXTS = randomTexts(6, testSize(600, 6000));
const { tokens: CHARACTERS } = characterMerges(TEXTS.slice(0, 200));
const random = createRandom(3);
const scoresOf = (tokens: readonly string[]): number[] => tokens.map(() => Math.fround(-1 - 9 * random.next()));

const SCORED = ["<unk>", "<s>", "</s>", ...CHARACTERS, ...BYTE_TOKENS, ...SPECIAL_TOKENS];
const SCORED_KEYS: Keys = {
  model: "llama",
  tokens: SCORED,
  token_type: typesOf(SCORED, ["<s>", "</s>"]),
  scores: SCORED.map((_, i) => -Math.floor(i / 3)), // equal scores: the leftmost merge comes first
};

const UNIGRAM = ["<pad>", "</s>", "<unk>", ...CHARACTERS, ...SPECIAL_TOKENS];
const CHARSMAP = charsmapOf(
  new Map([
    ...["\t", "\n", "\r", "\u00a0", "\u3000", "\u2003"].map((blank) => [blank, " "] as const),
    ...[..."abcdefghijklmnopqrstuvwxyz"].map((letter, i) => [String.fromCodePoint(0xff41 + i), letter] as const),
    ...([
      ["\ufb01", "fi"],
      ["e\u0301", "\u00e9"],
      ["\u200d", ""],
      ["\u2026", "..."],
      ["...", "\u2026"],
    ] as const),
  ]),
);
const UNIGRAM_KEYS: Keys = {
  model: "t5",
  tokens: UNIGRAM,
  token_type: typesOf(UNIGRAM, ["<pad>", "</s>"]),
  scores: scoresOf(UNIGRAM),
  ...{ eos_token_id: 1, unknown_token_id: 2, padding_token_id: 0 },
};

const BRACKETS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
const WORD_PIECES = [...BRACKETS, ...new Set(TEXTS.slice(0, 250).flatMap(piecesOf))];
const WORD_PIECE_KEYS: Keys = {
  model: "bert",
  tokens: WORD_PIECES,
  token_type: typesOf(WORD_PIECES, BRACKETS),
  ...{ bos_token_id: 2, unknown_token_id: 1, seperator_token_id: 3, padding_token_id: 0, mask_token_id: 4 },
};

/** Starts of words with a mark, and their parts without. */
function piecesOf(text: string): readonly string[] {
  const letters = [...text.normalize("NFD").replaceAll(/\p{White_Space}/gu, "")];
  const pieces = letters.flatMap((letter, i) => [`\u2581${letter}`, letter, letter + (letters[i + 1] ?? "")]);
  return [...pieces, ...pieces.map((piece) => piece.toLowerCase())].filter((piece) => !BRACKETS.includes(piece));
}

/** Bytes as Python writes them. */
function escaped(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => {
    if (byte === 10) return "\\n";
    if (byte === 92) return "\\\\";
    return byte > 32 && byte < 127 ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`;
  }).join("");
}

const SEQUENCES = TEXTS.slice(0, 250).map((text) => escaped(Buffer.from(text).subarray(1, 2 + random.below(6))));
const LONGEST = [
  "<s>",
  ...new Set([...Array.from({ length: 256 }, (_, byte) => escaped(Uint8Array.of(byte))), ...SEQUENCES.filter(Boolean)]),
  "<tool>",
];

const PLAMO = ["<unk>", "<s>", "</s>", "<pad>", ...CHARACTERS, ...BYTE_TOKENS, ...SPECIAL_TOKENS];

const CASES: readonly (readonly [title: string, keys: Keys, departure?: RegExp])[] = [
  ["SPM", SCORED_KEYS],
  ["SPM without a prefix, with an end", { ...SCORED_KEYS, add_space_prefix: false, add_eos_token: true }],
  ["UGM", UNIGRAM_KEYS],
  ["UGM with a prefix", { ...UNIGRAM_KEYS, add_space_prefix: true }],
  [
    "UGM with a prefix, merged spaces and a character map",
    {
      ...UNIGRAM_KEYS,
      ...{ add_space_prefix: true, remove_extra_whitespaces: true, precompiled_charsmap: [...CHARSMAP] },
    },
  ],
  // libllama takes the first part of a Korean syllable where BERT's own tokenizer takes all.
  ["WPM", WORD_PIECE_KEYS, /\p{Script=Hangul}/u],
  ["WPM of cased text", { ...WORD_PIECE_KEYS, "normalizer.lowercase": false }],
  ["RWKV", { model: "rwkv", tokens: LONGEST, token_type: typesOf(LONGEST, ["<s>"]) }],
  [
    "PLaMo 2",
    { model: "plamo2", tokens: PLAMO, token_type: typesOf(PLAMO, ["<s>", "</s>", "<pad>"]), scores: scoresOf(PLAMO) },
  ],
];

let llama: Llama | undefined;
for (const [title, keys, departure] of CASES) {
  test(`texts get the ids of libllama: ${title}`, async (t) => {
    llama ??= openLlama();
    const texts = TEXTS.filter((text) => departure?.test(text) !== true);
    const expected = await libraryIds(llama, folder, keys, texts);
    const actual = ourIds(ourTokenizer(keys), texts);
    for (const [i, ids] of actual.entries()) assert.deepEqual(ids, expected[i], JSON.stringify(texts[i >> 1]));
    t.diagnostic(`${texts.length} texts, ${actual.reduce((sum, ids) => sum + ids.length, 0)} ids`);
    assert.ok(texts.length > 500, `${texts.length} texts`);
  });
}

test("pairs of texts are framed as BERT has them", () => {
  const { ids, segments } = ourTokenizer(WORD_PIECE_KEYS).encodePair("a", "1 4");
  const [first, second, third] = ["\u2581a", "\u25811", "\u25814"].map((token) => WORD_PIECES.indexOf(token));
  assert.deepEqual([...ids], [2, first, 3, second, third, 3]);
  assert.deepEqual([...segments], [0, 0, 0, 1, 1, 1]);
});

test("ids become texts again", () => {
  const texts = ["hello x=1", "\u4e2d\u6587 1", "snake_case\n"];
  for (const keys of [SCORED_KEYS, CASES[7]?.[1] ?? {}, CASES[8]?.[1] ?? {}]) {
    const tokenizer = ourTokenizer(keys);
    for (const text of texts) {
      const ids = tokenizer.encode(text, { addSpecialTokens: false });
      const decoded = tokenizer.decode(ids, { skipSpecialTokens: true });
      assert.equal(decoded.replaceAll("\u2581", " "), text, `${String(keys.model)}: ${JSON.stringify(text)}`);
    }
  }
});

const REFUSED: readonly (readonly [changes: Keys, expected: RegExp])[] = [
  [{ ...UNIGRAM_KEYS, unknown_token_id: UNIGRAM.length }, /unknown_token_id: expected an id from 0 to/],
  [{ ...UNIGRAM_KEYS, scores: [1] }, /tokenizer\.ggml\.scores: expected \d+ numbers, got "others"/],
  [{ ...UNIGRAM_KEYS, precompiled_charsmap: [1, 2] }, /precompiled_charsmap: expected SentencePiece's table, got "exp/],
  [{ ...UNIGRAM_KEYS, precompiled_charsmap: [300] }, /precompiled_charsmap: expected a list of bytes/],
  [{ ...UNIGRAM_KEYS, token_type: UNIGRAM.map(() => 3) }, /scores: expected numbers of normal tokens/],
  [{ model: "bert", tokens: ["a"] }, /unknown_token_id: expected a token, got nothing/],
  [{ model: "rwkv", tokens: ["a"] }, /tokens: expected a token of each byte, got "none of byte 0"/],
  [{ ...SCORED_KEYS, tokens: SCORED.map((token) => token.replace("<0x41>", "<0xAAA>")) }, /got "none of byte 65"/],
  [{ model: "hybriddna", tokens: ["a"] }, /tokenizer\.ggml\.model: expected one of gpt2, .*, got "hybriddna"/],
];
for (const [keys, expected] of REFUSED) {
  test(`tokenizer metadata is refused: ${String(expected)}`, () => {
    assert.throws(() => ourTokenizer(keys), { message: expected });
  });
}

test("a broken character map is refused when loaded, or replaces text without leaving its table", () => {
  const text = Buffer.from(TEXTS.slice(0, 120).join(""));
  let numRefused = 0;
  for (let round = 0; round < testSize(200, 5000); round++) {
    const bytes = Buffer.from(CHARSMAP);
    for (let i = 0; i <= random.below(8); i++)
      bytes[random.below(round % 2 === 0 ? 1200 : bytes.length)] = random.below(256);
    const map = tryCharsmap(round % 5 === 0 ? bytes.subarray(0, random.below(bytes.length)) : bytes);
    if (map === undefined) numRefused++;
    for (let at = 0; at < text.length; at++) {
      const found = map?.longest(text, at);
      assert.ok(found === undefined || (found.length > 0 && at + found.length <= text.length));
    }
  }
  assert.ok(numRefused > 10, `${numRefused} refused`);
});

function tryCharsmap(bytes: Uint8Array): PrecompiledCharsmap | undefined {
  try {
    return new PrecompiledCharsmap(bytes);
  } catch (error) {
    assert.match(String(error), /^Error: expected /);
    return undefined;
  }
}
