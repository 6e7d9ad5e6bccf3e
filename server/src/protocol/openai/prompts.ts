/** Prompts of a completion: a text, token ids, or several of either. Source: OpenAI's API reference, `prompt`. */
import { MAX_PROMPT_TOKENS, MAX_PROMPTS, MAX_TOKEN_ID } from "../../core/limits.ts";
import type { Prompt } from "../../text-model/text-request.ts";
import { array, choice, integer, mapped, type Schema, string } from "../api/schema.ts";

const TOKENS: Schema<Prompt> = mapped(array(integer(0, MAX_TOKEN_ID), 1, MAX_PROMPT_TOKENS), (ids) => ({
  tokens: Int32Array.from(ids),
}));
const TEXT: Schema<Prompt> = mapped(string(), (text) => ({ text }));

const isText = (value: unknown): boolean => typeof value === "string";
const firstIs =
  (test: (value: unknown) => boolean) =>
  (value: unknown): boolean =>
    Array.isArray(value) && test(value[0]);
const asList = (prompt: Prompt): readonly Prompt[] => [prompt];

export const PROMPTS: Schema<readonly Prompt[]> = choice<readonly Prompt[]>(
  "a string, an array of strings, an array of tokens, or an array of token arrays",
  [isText, mapped(TEXT, asList)],
  [firstIs((value) => typeof value === "number"), mapped(TOKENS, asList)],
  [firstIs(Array.isArray), array(TOKENS, 1, MAX_PROMPTS)],
  [Array.isArray, array(TEXT, 1, MAX_PROMPTS)],
);
