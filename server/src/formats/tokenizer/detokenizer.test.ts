import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type Detokenizer, IncrementalDetokenizer, WholeDetokenizer } from "./detokenizer.ts";
import { tryParsePieces } from "./detokenizer-pieces.ts";

const SENTENCE_PIECE = {
  type: "Sequence",
  decoders: [
    { type: "Replace", pattern: { String: "▁" }, content: " " },
    { type: "ByteFallback" },
    { type: "Fuse" },
    { type: "Strip", content: " ", start: 1, stop: 0 },
  ],
};
const BYTE_LEVEL_TOKENS = ["Ġhi", "ðŁ", "ĳį", "Ã", "©", "Ġ", "ĉ", "<s>", "a b", "ÿ", "ĠĠ", "x"];
const SENTENCE_PIECE_TOKENS = ["▁hi", "<0xF0>", "<0x9F>", "<0x91>", "<0x8D>", "▁", "▁▁", "<s>", "<0xFF>", "é", "x"];

interface Kind {
  readonly name: string;
  readonly decoder: object;
  readonly tokens: readonly string[];
}

const KINDS: readonly Kind[] = [
  { name: "ByteLevel", decoder: { type: "ByteLevel" }, tokens: BYTE_LEVEL_TOKENS },
  {
    name: "ByteLevel in a sequence",
    decoder: { type: "Sequence", decoders: [{ type: "ByteLevel" }] },
    tokens: BYTE_LEVEL_TOKENS,
  },
  { name: "SentencePiece", decoder: SENTENCE_PIECE, tokens: SENTENCE_PIECE_TOKENS },
  { name: "Metaspace", decoder: { type: "Metaspace" }, tokens: SENTENCE_PIECE_TOKENS },
  {
    name: "WordPiece",
    decoder: { type: "WordPiece", prefix: "##", cleanup: true },
    tokens: ["he", "##llo", ".", "n't", "##x"],
  },
];

for (const kind of KINDS) {
  describe(`a detokenizer with decoder ${kind.name}`, () => {
    test("gives in chunks of any size the text of the whole", () => {
      const detokenizer = incremental(kind);
      let state = 11;
      const random = (below: number): number => {
        state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
        return (state >> 12) % below;
      };
      for (let round = 0; round < 500; round++) {
        const ids = Array.from({ length: 1 + random(30) }, () => random(kind.tokens.length + 1) - 1);
        const whole = detokenizer.push(ids) + detokenizer.finish();
        let chunked = "";
        for (let at = 0; at < ids.length; ) {
          const size = 1 + random(4);
          chunked += detokenizer.push(ids.slice(at, at + size));
          at += size;
        }
        assert.equal(chunked + detokenizer.finish(), whole, ids.join());
      }
    });
  });
}

const TEXTS: readonly (readonly [decoder: string, ids: readonly number[], text: string])[] = [
  ["ByteLevel", [0, 0], " hi hi"],
  ["ByteLevel", [1, 2, 3, 4], "👍é"],
  ["ByteLevel", [7, 8, 11], "<s>a bx"],
  ["ByteLevel", [9], "\ufffd"],
  ["ByteLevel", [1, 11], "\ufffdx"],
  ["SentencePiece", [0, 0], "hi hi"],
  ["SentencePiece", [6, 0], "  hi"],
  ["SentencePiece", [10, 1, 2, 3, 4], "x👍"],
  ["SentencePiece", [1, 2, 10], "\ufffdx"],
  ["Metaspace", [0, 0], "hi hi"],
  ["Metaspace", [9, 0], "é hi"],
  ["WordPiece", [0, 1, 2, 0, 3], "hello. hen't"],
];

for (const [decoder, ids, text] of TEXTS) {
  test(`decoder ${decoder} makes ${JSON.stringify(text)} of ${ids.join()}`, () => {
    const kind = KINDS.find(({ name }) => name === decoder) ?? assert.fail("unknown kind");
    const detokenizer = incremental(kind);
    assert.equal(detokenizer.push(ids) + detokenizer.finish(), text);
  });
}

test("`push()` holds back the bytes of a character until they are complete", () => {
  const detokenizer = incremental({ name: "", decoder: { type: "ByteLevel" }, tokens: BYTE_LEVEL_TOKENS });
  assert.deepEqual([detokenizer.push([0, 1]), detokenizer.push([2]), detokenizer.finish()], [" hi", "👍", ""]);
});

test("`finish()` turns an unfinished character into U+FFFD", () => {
  const detokenizer = incremental({ name: "", decoder: { type: "ByteLevel" }, tokens: BYTE_LEVEL_TOKENS });
  assert.deepEqual([detokenizer.push([11, 1]), detokenizer.finish()], ["x", "\ufffd"]);
});

test("a skipped token at the start leaves the first word its missing space", () => {
  const pieces = tryParsePieces(SENTENCE_PIECE, SENTENCE_PIECE_TOKENS) ?? assert.fail("no pieces");
  const detokenizer = new IncrementalDetokenizer(pieces, new Set([7]));
  assert.equal(detokenizer.push([7]) + detokenizer.push([0, 7, 0]), "hi hi");
});

test("`tryParsePieces()` gives up on decoders that look across tokens", () => {
  for (const decoder of [
    null,
    { type: "CTC" },
    { type: "BPEDecoder", suffix: "</w>" },
    { type: "Strip", content: " ", start: 1, stop: 0 },
  ]) {
    assert.equal(tryParsePieces(decoder, ["a"]), undefined);
  }
});

test("`WholeDetokenizer` gives everything at the end and starts anew", () => {
  const detokenizer = new WholeDetokenizer((ids) => ids.join("-"), new Set([2]));
  assert.deepEqual([detokenizer.push([1, 2]), detokenizer.push([3]), detokenizer.finish()], ["", "", "1-3"]);
  assert.equal(detokenizer.finish(), "");
});

function incremental(kind: Kind): Detokenizer {
  return new IncrementalDetokenizer(tryParsePieces(kind.decoder, kind.tokens) ?? assert.fail("no pieces"));
}
