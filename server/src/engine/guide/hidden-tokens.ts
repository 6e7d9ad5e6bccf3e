/**
 * Special tokens that may stand nowhere in a text under a grammar. Their letters fit like those of any other token: `</s>`
 * would end an answer within a string, and decoders leave others out, so that strings get too short. Source: own design.
 */
import type { Grammar } from "./guide-grammar.ts";

/** Members of structural tags that let any text pass, marks of the model's own format among it. */
const FREE_TEXT = /"(?:any_text|triggered_tags)"/;

export interface SpecialToken {
  readonly id: number;
  readonly text: string;
}

export function hiddenTokens({ kind, ...grammar }: Grammar, specials: readonly SpecialToken[]): readonly number[] {
  const text = "text" in grammar ? grammar.text : "";
  if (kind === "structural_tag" && FREE_TEXT.test(text)) return [];
  const escaped = (token: string): string => JSON.stringify(token).slice(1, -1);
  return specials.filter((token) => !text.includes(escaped(token.text))).map(({ id }) => id);
}
