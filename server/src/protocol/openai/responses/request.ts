/** Bodies of POST /v1/responses and /v1/responses/input_tokens. Source: OpenAI's API reference, "Create a model response". */
import { MAX_CHOICES, MAX_LLM_SALT_CHARS } from "../../../core/limits.ts";
import {
  anyObject,
  anything,
  array,
  boolean,
  integer,
  type JsonObject,
  number,
  object,
  oneOf,
  optional,
  required,
  type Schema,
  string,
} from "../../api/schema.ts";
import { refused } from "../chat/request.ts";
import { type FieldsOf, SERVICE_TIER, type ServiceTier, TOP_LOG_PROBS } from "../generation-fields.ts";
import { INPUT } from "./input-items.ts";
import { REASONING, type ReasoningOptions } from "./reasoning-options.ts";
import { TEXT, type TextOptions } from "./text-options.ts";

/** Fields that decide the prompt. */
export interface PromptFields {
  readonly model: string;
  /** Each has a `type`. */
  readonly input: readonly JsonObject[];
  readonly instructions?: string | undefined;
  readonly previous_response_id?: string | undefined;
  readonly reasoning?: ReasoningOptions | undefined;
  readonly text?: TextOptions | undefined;
  readonly tools?: readonly JsonObject[] | undefined;
  readonly tool_choice?: unknown;
  readonly parallel_tool_calls?: boolean | undefined;
  readonly truncation?: "auto" | "disabled" | undefined;
  /** vLLM's name for variables of the chat template. */
  readonly chat_template_kwargs?: JsonObject | undefined;
  readonly conversation?: unknown;
  readonly prompt?: unknown;
}

export interface ResponseRequest extends PromptFields {
  readonly store?: boolean | undefined;
  readonly background?: boolean | undefined;
  readonly stream?: boolean | undefined;
  readonly max_output_tokens?: number | undefined;
  readonly max_tool_calls?: number | undefined;
  readonly temperature?: number | undefined;
  readonly top_p?: number | undefined;
  readonly top_k?: number | undefined;
  readonly seed?: number | undefined;
  readonly include?: readonly string[] | undefined;
  readonly top_logprobs?: number | undefined;
  readonly metadata?: JsonObject | undefined;
  readonly user?: string | undefined;
  readonly safety_identifier?: string | undefined;
  readonly prompt_cache_key?: string | undefined;
  readonly service_tier?: ServiceTier | undefined;
  readonly context_management?: readonly ContextManagement[] | undefined;
  readonly moderation?: unknown;
}

/** A conversation of more tokens is compacted first. */
export interface ContextManagement {
  readonly type: "compaction";
  readonly compact_threshold?: number | undefined;
}

const CONTEXT_MANAGEMENT: Schema<ContextManagement> = object<ContextManagement>({
  type: required(oneOf("compaction")),
  compact_threshold: optional(integer(1)),
});

const MAX_TOOLS = 1024;

const PROMPT_FIELDS: FieldsOf<PromptFields> = {
  model: required(string()),
  input: required(INPUT),
  instructions: optional(string()),
  previous_response_id: optional(string()),
  reasoning: optional(REASONING),
  text: optional(TEXT),
  tools: optional(array(anyObject(), 0, MAX_TOOLS)),
  tool_choice: optional(anything()),
  parallel_tool_calls: optional(boolean()),
  truncation: optional(oneOf("auto", "disabled")),
  chat_template_kwargs: optional(anyObject()),
  conversation: optional(refused("This server keeps responses: use 'previous_response_id'.")),
  prompt: optional(refused("This server keeps no prompts: send 'instructions' and 'input'.")),
};

export const INPUT_TOKENS_REQUEST: Schema<PromptFields> = object<PromptFields>(PROMPT_FIELDS);

/** Body of POST /v1/responses/compact. Source: OpenAI's API reference, "Compact a response". */
export interface CompactRequest
  extends Pick<
    ResponseRequest,
    "model" | "instructions" | "previous_response_id" | "prompt_cache_key" | "service_tier"
  > {
  readonly input?: readonly JsonObject[] | undefined;
}

export const COMPACT_REQUEST: Schema<CompactRequest> = object<CompactRequest>({
  model: required(string()),
  input: optional(INPUT),
  instructions: optional(string()),
  previous_response_id: optional(string()),
  prompt_cache_key: optional(string(MAX_LLM_SALT_CHARS)),
  service_tier: optional(SERVICE_TIER),
});

export const RESPONSE_REQUEST: Schema<ResponseRequest> = object<ResponseRequest>({
  ...PROMPT_FIELDS,
  store: optional(boolean()),
  background: optional(boolean()),
  stream: optional(boolean()),
  max_output_tokens: optional(integer(1)),
  max_tool_calls: optional(integer(1)),
  temperature: optional(number(0, 2)),
  top_p: optional(number(0, 1)),
  top_k: optional(integer(-1)),
  seed: optional(integer(Number.MIN_SAFE_INTEGER)),
  include: optional(array(string(), 0, MAX_CHOICES)),
  top_logprobs: optional(TOP_LOG_PROBS),
  metadata: optional(anyObject()),
  user: optional(string()),
  safety_identifier: optional(string()),
  prompt_cache_key: optional(string(MAX_LLM_SALT_CHARS)),
  service_tier: optional(SERVICE_TIER),
  context_management: optional(array(CONTEXT_MANAGEMENT, 0, MAX_CHOICES)),
  moderation: optional(refused("This server has no model for moderation.")),
});
