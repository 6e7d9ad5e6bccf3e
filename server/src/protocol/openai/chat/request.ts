/** Body of POST /v1/chat/completions. Sources: OpenAI's API reference; vLLM's "Chat API", extra parameters. */
import { unsupportedParameter } from "../../api/api-error.ts";
import {
  anyObject,
  anything,
  array,
  boolean,
  integer,
  type JsonObject,
  mapped,
  object,
  optional,
  required,
  type Schema,
  string,
} from "../../api/schema.ts";
import { type FieldsOf, GENERATION_FIELDS, type GenerationFields, TOP_LOG_PROBS } from "../generation-fields.ts";
import { MESSAGES, type ReadMessage } from "./messages.ts";
import type { ToolFields } from "./tools.ts";

export interface ChatRequest extends GenerationFields, ToolFields {
  readonly messages: readonly ReadMessage[];
  readonly max_completion_tokens?: number | undefined;
  readonly logprobs?: boolean | undefined;
  readonly top_logprobs?: number | undefined;
  readonly reasoning_effort?: string | undefined;
  readonly thinking_token_budget?: number | undefined;
  readonly include_reasoning?: boolean | undefined;
  readonly chat_template_kwargs?: JsonObject | undefined;
  readonly add_generation_prompt?: boolean | undefined;
  readonly continue_final_message?: boolean | undefined;
  readonly documents?: unknown;
  readonly verbosity?: string | undefined;
  readonly modalities?: readonly string[] | undefined;
  readonly audio?: unknown;
  readonly web_search_options?: unknown;
  readonly moderation?: unknown;
  readonly chat_template?: unknown;
}

const TOOL_FIELDS: FieldsOf<ToolFields> = {
  tools: optional(array(anyObject(), 0, 1024)),
  tool_choice: optional(anything()),
  functions: optional(array(anyObject(), 0, 1024)),
  function_call: optional(anything()),
  parallel_tool_calls: optional(boolean()),
};

/** Read, so that the refusal can name it. */
export function refused(why: string): Schema<unknown> {
  return mapped(anything(), (_, path) => {
    throw unsupportedParameter(path, why);
  });
}

function textOnly(names: readonly string[], path: string): readonly string[] {
  if (names.every((name) => name === "text")) return names;
  throw unsupportedParameter(path, "The models of this server answer with text only.");
}

export const CHAT_REQUEST: Schema<ChatRequest> = object<ChatRequest>({
  ...GENERATION_FIELDS,
  ...TOOL_FIELDS,
  messages: required(MESSAGES),
  max_completion_tokens: optional(integer(1)),
  logprobs: optional(boolean()),
  top_logprobs: optional(TOP_LOG_PROBS),
  reasoning_effort: optional(string()),
  thinking_token_budget: optional(integer(0)),
  include_reasoning: optional(boolean()),
  chat_template_kwargs: optional(anyObject()),
  add_generation_prompt: optional(boolean()),
  continue_final_message: optional(boolean()),
  documents: optional(anything()),
  verbosity: optional(string()),
  modalities: optional(mapped(array(string()), textOnly)),
  moderation: optional(refused("This server has no model for moderation.")),
  audio: optional(refused("The models of this server answer with text only.")),
  web_search_options: optional(refused("This server searches no web.")),
  chat_template: optional(refused("Templates belong to the model: set 'chat_template' in its config.pbtxt.")),
});
