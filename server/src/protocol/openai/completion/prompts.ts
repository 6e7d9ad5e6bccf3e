/**
 * From the body of a completion to the requests of a text model, one for each prompt.
 * Source: OpenAI's API reference, "Create completion".
 */

import { MAX_COMPLETION_CHOICES } from "../../../core/limits.ts";
import { gapPrompt } from "../../../text-model/fill-in-the-middle.ts";
import type { TextModel } from "../../../text-model/text-model.ts";
import type { Prompt, TextRequest } from "../../../text-model/text-request.ts";
import { invalidParameter, unsupportedParameter } from "../../api/api-error.ts";
import { textRequestOf } from "../generation-fields.ts";
import type { CompletionRequest } from "./request.ts";

/** OpenAI's default. */
const DEFAULT_MAX_TOKENS = 16;

export interface PreparedCompletion {
  readonly requests: readonly TextRequest[];
  /** Text of each prompt, for `echo`. */
  readonly prompts: readonly string[];
}

/** @throws ApiError */
export function prepareCompletion(model: TextModel, body: CompletionRequest): PreparedCompletion {
  const numChoices = body.n ?? 1;
  if (body.best_of !== undefined && body.best_of !== numChoices) {
    throw unsupportedParameter("best_of", "This server ranks no choices: leave it out, or give it the value of 'n'.");
  }
  if (body.prompt.length * numChoices > MAX_COMPLETION_CHOICES) {
    const text = `Invalid 'prompt': ${body.prompt.length} prompts with ${numChoices} choices each, expected at most ${MAX_COMPLETION_CHOICES} choices.`;
    throw invalidParameter("prompt", "array_above_max_length", text);
  }
  const isScoreOnly = body.max_tokens === 0;
  if (isScoreOnly && body.echo !== true) {
    throw invalidParameter("max_tokens", "integer_below_min_value", "Invalid 'max_tokens': 0 needs 'echo'.");
  }
  const shared: Omit<TextRequest, "prompt"> = {
    ...textRequestOf(body),
    maxTokens: isScoreOnly ? 1 : (body.max_tokens ?? DEFAULT_MAX_TOKENS),
    logProbs: body.logprobs,
    promptLogProbs: body.echo === true ? body.logprobs : undefined,
  };
  return {
    requests: body.prompt.map((prompt) => ({ ...shared, prompt: withSuffix(model, prompt, body.suffix) })),
    prompts: body.echo === true ? body.prompt.map((prompt) => textOf(model, prompt)) : [],
  };
}

function withSuffix(model: TextModel, prompt: Prompt, suffix: string | undefined): Prompt {
  if (suffix === undefined || suffix === "") return prompt;
  const { tokenizer } = model;
  const text = tokenizer === undefined ? undefined : gapPrompt(tokenizer, textOf(model, prompt), suffix);
  if (text !== undefined) return { text };
  throw unsupportedParameter(
    "suffix",
    `Model '${model.name}' was not trained to fill a gap: its tokenizer has no tokens for it.`,
  );
}

function textOf({ tokenizer }: TextModel, prompt: Prompt): string {
  if ("text" in prompt) return prompt.text;
  return tokenizer?.decode(prompt.tokens, { skipSpecialTokens: true }) ?? "";
}
