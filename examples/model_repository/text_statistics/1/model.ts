/** Counts the words and tokens of texts; the tokens are counted by the model `preprocessing` of the same server. */
import type { Model } from "../model-types.d.ts";

export const execute: Model["execute"] = async ({ inputs, models }, context) => {
  const texts = inputs.TEXT.strings;
  if (texts.some((text) => text.trim() === "")) {
    throw context.error("invalid_argument", "TEXT must hold a word at least");
  }
  const { REQUEST_INPUT_LEN } = await models.preprocessing.infer({
    QUERY: texts,
    REQUEST_OUTPUT_LEN: texts.map(() => 1),
  });
  const words = texts.map((text) => text.trim().split(/\s+/));
  context.metrics.counter("example_texts_total", "Texts that were counted").increment(texts.length);
  return {
    WORDS: words.map(({ length }) => length),
    TOKENS: REQUEST_INPUT_LEN.data,
    LONGEST_WORD: words.map((list) => list.reduce((longest, word) => (word.length > longest.length ? word : longest))),
  };
};
