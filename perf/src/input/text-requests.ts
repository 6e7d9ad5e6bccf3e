/** The requests of a load on a language model: synthetic lengths, or the entries of a trace. */
import { drawLength, type LengthDistribution, pickWeighted, type Weighted } from "../plan/lengths.ts";
import { createRandom, type Random } from "../plan/random.ts";
import type { TextRequest } from "./text-request.ts";
import { randomText, type TokenCounter } from "./text-source.ts";
import { TRACE_BLOCK_TOKENS, type TraceEntry } from "./trace.ts";

export interface TextRequestOptions {
  readonly model: string;
  /** Models in place of `model`, by weight: LoRA adapters. */
  readonly mix: readonly Weighted<string>[];
  readonly input: LengthDistribution;
  /** Undefined: the server's limit. */
  readonly output: LengthDistribution | undefined;
  /** Tokens at the start of each synthetic prompt that all share. */
  readonly sharedPrefixTokens: number;
  readonly images: readonly string[];
  readonly seed: number;
}

export function syntheticRequests(count: number, options: TextRequestOptions, counter: TokenCounter): TextRequest[] {
  const random = createRandom(options.seed);
  const prefix = options.sharedPrefixTokens === 0 ? "" : `${randomText(options.sharedPrefixTokens, counter, random)} `;
  return Array.from({ length: count }, () => {
    const numTokens = Math.max(1, drawLength(options.input, random) - options.sharedPrefixTokens);
    const prompt = `${prefix}${randomText(numTokens, counter, random)}`;
    return requestOf(prompt, undefined, options, counter, random);
  });
}

/** Equal block ids become equal texts, as long as `TRACE_BLOCK_TOKENS`; the last block of a prompt is as long as what is left. */
export function tracedRequests(
  entries: readonly TraceEntry[],
  options: TextRequestOptions,
  counter: TokenCounter,
): TextRequest[] {
  const random = createRandom(options.seed);
  return entries.map(({ prompt, inputTokens = 0, outputTokens, blockIds }) => {
    const text = prompt ?? blocksText(blockIds, inputTokens, options.seed, counter, random);
    return requestOf(text, outputTokens, options, counter, random);
  });
}

function blocksText(
  blockIds: readonly number[],
  inputTokens: number,
  seed: number,
  counter: TokenCounter,
  random: Random,
): string {
  if (blockIds.length === 0) return randomText(inputTokens, counter, random);
  const blocks = blockIds.map((id, k) => {
    const left = Math.max(1, inputTokens - k * TRACE_BLOCK_TOKENS);
    const block = randomText(TRACE_BLOCK_TOKENS, counter, createRandom(seed + id));
    return left < TRACE_BLOCK_TOKENS ? counter.cut(block, left) : block;
  });
  return blocks.join(" ");
}

function requestOf(
  prompt: string,
  outputTokens: number | undefined,
  options: TextRequestOptions,
  counter: TokenCounter,
  random: Random,
): TextRequest {
  const { output, images, mix, model } = options;
  return {
    model: pickWeighted(mix, random) ?? model,
    prompt,
    inputTokens: counter.count(prompt),
    outputTokens: outputTokens ?? (output === undefined ? undefined : drawLength(output, random)),
    images,
  };
}
