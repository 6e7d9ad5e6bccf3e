/**
 * How the tokens of two texts follow each other, from the `post_processor` section of tokenizer.json. Source: tokenizers
 * library, `processors`. Knows no text.
 */
import { isObject } from "../../core/json-object.ts";
import { idOfPair, idsOf } from "./post-processor.ts";

export interface PairItem {
  /** Special tokens, or the first (0) or second (1) text. */
  readonly ids: readonly number[] | 0 | 1;
  readonly segment: number;
}

/** Without a section that says more, one text behind the other. */
const PLAIN: readonly PairItem[] = [
  { ids: 0, segment: 0 },
  { ids: 1, segment: 0 },
];

export function parsePairTemplate(section: unknown): readonly PairItem[] {
  if (!isObject(section)) return PLAIN;
  switch (section.type) {
    case "TemplateProcessing":
      return Array.isArray(section.pair) ? section.pair.flatMap((item) => itemOf(item, section.special_tokens)) : PLAIN;
    case "BertProcessing":
      return framed(section, 1, 1);
    case "RobertaProcessing":
      return framed(section, 2, 0);
    case "Sequence":
      return ofSequence(section.processors);
    default:
      return PLAIN;
  }
}

function ofSequence(processors: unknown): readonly PairItem[] {
  const templates = Array.isArray(processors) ? processors.map(parsePairTemplate) : [];
  return templates.find((template) => template !== PLAIN) ?? PLAIN;
}

function itemOf(item: unknown, table: unknown): readonly PairItem[] {
  if (!isObject(item)) return [];
  const { Sequence: text, SpecialToken: special } = item;
  if (isObject(text)) return [{ ids: text.id === "B" ? 1 : 0, segment: segmentOf(text.type_id) }];
  if (isObject(special)) return [{ ids: idsOf(table, special.id), segment: segmentOf(special.type_id) }];
  return [];
}

function segmentOf(value: unknown): number {
  return Number.isSafeInteger(value) ? Number(value) : 0;
}

/** [cls] first [sep] second [sep], with as many separators between the texts. */
function framed(section: Record<string, unknown>, numBetween: number, segment: number): readonly PairItem[] {
  const end = idOfPair(section.sep, "sep");
  return [
    { ids: idOfPair(section.cls, "cls"), segment: 0 },
    { ids: 0, segment: 0 },
    { ids: Array.from({ length: numBetween }, () => end).flat(), segment: 0 },
    { ids: 1, segment },
    { ids: end, segment },
  ];
}
