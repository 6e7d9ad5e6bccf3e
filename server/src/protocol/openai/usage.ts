/** Token counts in OpenAI's form. Source: OpenAI's API reference, "The completion object". */
import type { TextUsage } from "../../text-model/text-request.ts";

export interface OpenAiUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
  readonly completion_tokens_details: { readonly reasoning_tokens: number };
}

export class UsageSum {
  readonly #numChoices: number;
  /** The latest counts of each generation. */
  readonly #counts = new Map<number, TextUsage>();

  /** The prompt that so many choices share counts once. */
  constructor(numChoices: number) {
    this.#numChoices = numChoices;
  }

  set(index: number, usage: TextUsage): void {
    this.#counts.set(index, usage);
  }

  /** Undefined: the model cannot tell. `reasoningTokens` is part of the output. */
  value(reasoningTokens = 0): OpenAiUsage | undefined {
    let prompt = 0;
    let output = 0;
    let cached = 0;
    for (const [index, { promptTokens, outputTokens, cachedTokens }] of this.#counts) {
      if (promptTokens === undefined || outputTokens === undefined) return undefined;
      output += outputTokens;
      if (index % this.#numChoices !== 0) continue;
      prompt += promptTokens;
      cached += cachedTokens;
    }
    return {
      prompt_tokens: prompt,
      completion_tokens: output,
      total_tokens: prompt + output,
      prompt_tokens_details: { cached_tokens: cached },
      completion_tokens_details: { reasoning_tokens: reasoningTokens },
    };
  }
}
