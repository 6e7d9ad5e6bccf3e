/**
 * Prompts with a text behind them, for models that were trained to fill a gap. Sources: Bavarian et al., "Efficient
 * training of language models to fill in the middle" (2022), and the tokenizers of the families.
 */
import type { Tokenizer } from "../formats/tokenizer/tokenizer.ts";

interface GapTokens {
  readonly prefix: string;
  readonly suffix: string;
  readonly middle: string;
  /** The text behind the gap comes first. */
  readonly isSuffixFirst?: boolean;
}

const FAMILIES: readonly GapTokens[] = [
  { prefix: "<|fim_prefix|>", suffix: "<|fim_suffix|>", middle: "<|fim_middle|>" }, // Qwen, CodeGemma
  { prefix: "<fim_prefix>", suffix: "<fim_suffix>", middle: "<fim_middle>" }, // StarCoder
  { prefix: "<fim-prefix>", suffix: "<fim-suffix>", middle: "<fim-middle>" }, // SantaCoder
  { prefix: "<｜fim▁begin｜>", suffix: "<｜fim▁hole｜>", middle: "<｜fim▁end｜>" }, // DeepSeek
  { prefix: "▁<PRE>", suffix: "▁<SUF>", middle: "▁<MID>" }, // Code Llama
  { prefix: "[PREFIX]", suffix: "[SUFFIX]", middle: "", isSuffixFirst: true }, // Codestral
];

/** Undefined: the tokenizer has no tokens for a gap. */
export function gapPrompt(tokenizer: Pick<Tokenizer, "idOf">, before: string, behind: string): string | undefined {
  const family = FAMILIES.find(({ prefix, suffix, middle }) =>
    [prefix, suffix, middle].every((token) => token === "" || tokenizer.idOf(token) !== undefined),
  );
  if (family === undefined) return undefined;
  const { prefix, suffix, middle, isSuffixFirst } = family;
  return isSuffixFirst === true
    ? `${suffix}${behind}${prefix}${before}${middle}`
    : `${prefix}${before}${suffix}${behind}${middle}`;
}
