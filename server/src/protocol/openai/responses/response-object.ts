/** The response object: what the request said, and how far it has come. Source: OpenAI's API reference, "The response object". */
import type { JsonObject } from "../../api/schema.ts";
import { servedTier } from "../generation-fields.ts";
import type { OpenAiUsage } from "../usage.ts";
import type { ResponseRequest } from "./request.ts";

export type ResponseStatus = "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";

export interface ResponseFault {
  readonly code: string;
  readonly message: string;
}

/** Members that change while it runs. */
export interface ResponseState {
  readonly status: ResponseStatus;
  /** Seconds since 1970. */
  readonly completedAt: number | null;
  readonly error: ResponseFault | null;
  readonly output: readonly JsonObject[];
  readonly usage: OpenAiUsage | undefined;
}

export interface ResponseFacts {
  readonly id: string;
  /** Seconds since 1970. */
  readonly createdAt: number;
  readonly body: ResponseRequest;
}

export function responseObject({ id, createdAt, body }: ResponseFacts, state: ResponseState): JsonObject {
  const { status, completedAt, error, output, usage } = state;
  return {
    id,
    object: "response",
    created_at: createdAt,
    status,
    background: body.background ?? false,
    completed_at: completedAt,
    error,
    incomplete_details: status === "incomplete" ? { reason: "max_output_tokens" } : null,
    output,
    usage: usage === undefined ? null : usageObject(usage),
    ...echo(body),
  };
}

export function usageObject(usage: OpenAiUsage): JsonObject {
  return {
    input_tokens: usage.prompt_tokens,
    input_tokens_details: { cached_tokens: usage.prompt_tokens_details.cached_tokens, cache_write_tokens: 0 },
    output_tokens: usage.completion_tokens,
    output_tokens_details: usage.completion_tokens_details,
    total_tokens: usage.total_tokens,
  };
}

/** Fields that the object repeats, with their defaults. */
const ECHOED: JsonObject = {
  instructions: null,
  max_output_tokens: null,
  max_tool_calls: null,
  metadata: {},
  model: null,
  parallel_tool_calls: true,
  previous_response_id: null,
  prompt_cache_key: null,
  safety_identifier: null,
  store: true,
  temperature: 1,
  tool_choice: "auto",
  tools: [],
  top_logprobs: 0,
  top_p: 1,
  truncation: "disabled",
  user: null,
};

function echo(body: ResponseRequest): JsonObject {
  const given: JsonObject = { ...body };
  const { reasoning, text, service_tier: tier = "auto" } = body;
  return {
    ...Object.fromEntries(Object.entries(ECHOED).map(([name, value]) => [name, given[name] ?? value])),
    reasoning: { effort: reasoning?.effort ?? null, summary: reasoning?.summary ?? null },
    service_tier: servedTier(tier),
    text: { format: text?.format ?? { type: "text" }, verbosity: text?.verbosity ?? "medium" },
  };
}
