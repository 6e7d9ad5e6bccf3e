/** Texts of a number of tokens. With a tokenizer the number is exact where its words allow; else a word counts as a token. */
import { loadTokenizer } from "@nereid/server/formats/tokenizer/tokenizer-files";
import type { Random } from "../plan/random.ts";

export interface TokenCounter {
  count(text: string): number;
  /** The first tokens of a text, as text again. */
  cut(text: string, numTokens: number): string;
}

/** Common English words: most tokenizers have each as one token. */
const WORDS =
  "the of and to in is that it was for on are as with his they at be this from have or by one had not but what all were when we there can an your which their said if do will each about how up out them then she many some so these would other into has more her two like him see time could no make than first been its who now people my made over did down only way find use may water long little very after words called just where most know".split(
    " ",
  );

export const WORD_COUNTER: TokenCounter = {
  count: (text) => text.split(/\s+/).filter((word) => word !== "").length,
  cut: (text, numTokens) => text.split(/\s+/).slice(0, numTokens).join(" "),
};

/** `path` is a folder with tokenizer.json, or a GGUF file. */
export async function tokenCounter(path: string): Promise<TokenCounter> {
  const tokenizer = await loadTokenizer(path);
  const encode = (text: string): Int32Array => tokenizer.encode(text, { addSpecialTokens: false });
  return {
    count: (text) => encode(text).length,
    cut: (text, numTokens) => tokenizer.decode(encode(text).subarray(0, numTokens), { skipSpecialTokens: false }),
  };
}

export function randomText(numTokens: number, counter: TokenCounter, random: Random): string {
  const words: string[] = [];
  let count = 0;
  while (count < numTokens) {
    for (let k = count; k < numTokens; k++) words.push(WORDS[random.below(WORDS.length)] ?? "");
    count = counter.count(words.join(" "));
  }
  return counter.cut(words.join(" "), numTokens);
}
