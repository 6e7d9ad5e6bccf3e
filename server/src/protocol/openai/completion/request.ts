/** Body of POST /v1/completions. Sources: OpenAI's API reference; vLLM's "Completions API", extra parameters. */
import type { Prompt } from "../../../text-model/text-request.ts";
import { boolean, integer, object, optional, required, type Schema, string } from "../../api/schema.ts";
import { GENERATION_FIELDS, type GenerationFields, TOP_LOG_PROBS } from "../generation-fields.ts";
import { PROMPTS } from "../prompts.ts";

export interface CompletionRequest extends GenerationFields {
  readonly prompt: readonly Prompt[];
  readonly echo?: boolean | undefined;
  readonly suffix?: string | undefined;
  readonly best_of?: number | undefined;
  readonly logprobs?: number | undefined;
}

export const COMPLETION_REQUEST: Schema<CompletionRequest> = object<CompletionRequest>({
  ...GENERATION_FIELDS,
  prompt: required(PROMPTS),
  echo: optional(boolean()),
  suffix: optional(string()),
  best_of: optional(integer(1, 20)),
  logprobs: optional(TOP_LOG_PROBS),
  // With `echo` alone the prompt's own scores are asked for: no new tokens.
  max_tokens: optional(integer(0)),
});
