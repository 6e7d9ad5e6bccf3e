import assert from "node:assert/strict";
import { test } from "node:test";
import { parsePairTemplate } from "./pair-template.ts";

const special_tokens = { "[CLS]": { ids: [1] }, "[SEP]": { ids: [2] } };
const text = (id: string, type_id: number): unknown => ({ Sequence: { id, type_id } });
const special = (id: string, type_id: number): unknown => ({ SpecialToken: { id, type_id } });

test("parsePairTemplate() reads the order of texts and special tokens, with their segments", () => {
  const pair = [special("[CLS]", 0), text("A", 0), special("[SEP]", 0), text("B", 1), special("[SEP]", 1)];
  const template = parsePairTemplate({ type: "TemplateProcessing", pair, special_tokens });
  const wanted = [
    { ids: [1], segment: 0 },
    { ids: 0, segment: 0 },
    { ids: [2], segment: 0 },
    { ids: 1, segment: 1 },
    { ids: [2], segment: 1 },
  ];
  assert.deepEqual(template, wanted);
  const sections = [{ type: "ByteLevel" }, { type: "BertProcessing", cls: ["[CLS]", 1], sep: ["[SEP]", 2] }];
  assert.deepEqual(parsePairTemplate({ type: "Sequence", processors: sections }), wanted);
});

test("parsePairTemplate() puts two separators between the texts of RoBERTa, all in one segment", () => {
  const template = parsePairTemplate({ type: "RobertaProcessing", cls: ["<s>", 0], sep: ["</s>", 2] });
  assert.deepEqual(template[2], { ids: [2, 2], segment: 0 });
  assert.ok(template.every(({ segment }) => segment === 0));
});

test("parsePairTemplate() puts one text behind the other without a section, and names unknown special tokens", () => {
  assert.equal(parsePairTemplate(undefined).length, 2);
  const broken = { type: "TemplateProcessing", pair: [special("[CLS]", 0)], special_tokens: {} };
  assert.throws(() => parsePairTemplate(broken), /expected the ids of "\[CLS\]"/);
});
