import assert from "node:assert/strict";
import test from "node:test";
import { isReasoningOpen, REASONING_ROWS, ReasoningParser } from "./reasoning.ts";
import { parsePieces, pieces, seeded } from "./tools/answer.test-support.ts";
import { PlainParser } from "./tools/plain-parser.ts";

for (const row of REASONING_ROWS) {
  const { open, close, name } = row;
  const cases: readonly (readonly [answer: string, isOpen: boolean, reasoning: string, text: string])[] = [
    [`${open}\nWhy < not?\n${close}\n\nBecause.`, false, "Why < not?", "Because."],
    [`\n${open}A\n\nB${close}C`, false, "A\n\nB", "C"],
    [`Why not?\n${close}\n\nBecause.`, true, "Why not?", "Because."],
    [`${open}\n\n${close}\n\nBecause.`, false, "", "Because."],
    ["No reasoning. ", false, "", "No reasoning. "],
    [`Text with ${open} later`, false, "", `Text with ${open} later`],
    [`${open}cut off`, false, "cut off", ""],
    ["", true, "", ""],
  ];
  for (const [answer, isOpen, reasoning, text] of cases) {
    test(`${name}: ${JSON.stringify(answer)}${isOpen ? " behind an open mark" : ""}`, () => {
      for (const meanLength of [1, 3, 1000]) {
        const parser = new ReasoningParser(row, isOpen, new PlainParser());
        assert.deepEqual(parsePieces(parser, pieces(answer, seeded(3), meanLength)), { text, reasoning, calls: [] });
      }
    });
  }

  test(`${name}: the prompt tells whether reasoning is open`, () => {
    assert.equal(isReasoningOpen(`<user>hi<assistant>${open}\n`, row), true);
    assert.equal(isReasoningOpen(`<user>hi<assistant>${open}\n\n${close}\n\n`, row), false);
    assert.equal(isReasoningOpen(`<user>what does ${open} mean?<assistant>`, row), false);
  });
}
