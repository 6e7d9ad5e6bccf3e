/**
 * The special tokens around an encoded text, from the `post_processor` section of tokenizer.json. Source: tokenizers
 * library, `processors`. Knows no text.
 */

import { isObject } from "../../core/json-object.ts";
import { expectTokenId } from "./tokenizer-json.ts";

export interface PostProcessor {
  readonly before: readonly number[];
  readonly after: readonly number[];
}

const EMPTY_FRAME: PostProcessor = { before: [], after: [] };

export function parsePostProcessor(section: unknown): PostProcessor {
  if (!isObject(section)) return EMPTY_FRAME;
  switch (section.type) {
    case "TemplateProcessing":
      return parseTemplate(section);
    case "BertProcessing":
    case "RobertaProcessing":
      return { before: idOfPair(section.cls, "cls"), after: idOfPair(section.sep, "sep") };
    case "Sequence":
      return parseSequence(section.processors);
    default:
      return EMPTY_FRAME;
  }
}

/** Later processors wrap the result of earlier ones. */
function parseSequence(processors: unknown): PostProcessor {
  if (!Array.isArray(processors)) return EMPTY_FRAME;
  return processors.map(parsePostProcessor).reduce(
    (inner, outer) => ({
      before: [...outer.before, ...inner.before],
      after: [...inner.after, ...outer.after],
    }),
    EMPTY_FRAME,
  );
}

function parseTemplate(section: Record<string, unknown>): PostProcessor {
  const before: number[] = [];
  const after: number[] = [];
  let side = before;
  const { single } = section;
  if (!Array.isArray(single)) return EMPTY_FRAME;
  for (const item of single) {
    if (!isObject(item)) continue;
    if (isObject(item.Sequence)) side = after;
    else if (isObject(item.SpecialToken)) side.push(...idsOf(section.special_tokens, item.SpecialToken.id));
  }
  return { before, after };
}

export function idsOf(table: unknown, name: unknown): readonly number[] {
  const entry = isObject(table) && typeof name === "string" && Object.hasOwn(table, name) ? table[name] : undefined;
  const ids = isObject(entry) ? entry.ids : undefined;
  if (!Array.isArray(ids))
    throw new Error(`post_processor.special_tokens: expected the ids of ${JSON.stringify(name)}`);
  return ids.map((id) => expectTokenId(id, "post_processor.special_tokens"));
}

/** `[text, id]`. */
export function idOfPair(value: unknown, name: string): readonly number[] {
  return Array.isArray(value) ? [expectTokenId(value[1], `post_processor.${name}`)] : [];
}
