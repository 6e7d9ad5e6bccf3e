/** Anything thrown in Anthropic's form: a type for each status. Source: Anthropic's API reference, "Errors". */
import { ApiError } from "../api/api-error.ts";
import { openAiError } from "../openai/openai-error.ts";

const TYPES: ReadonlyMap<number, string> = new Map([
  [401, "authentication_error"],
  [403, "permission_error"],
  [404, "not_found_error"],
  [413, "request_too_large"],
  [429, "rate_limit_error"],
  [529, "overloaded_error"],
]);
const OVERLOADED = 529;
const UNAVAILABLE = 503;
const MIN_SERVER_STATUS = 500;

/** Both counts of the refusals of a long prompt, whichever part of the server refused it. */
const PROMPT_COUNT = /your prompt has (\d+) tokens|Prompt length \((\d+)\)/;
const CONTEXT_COUNT = /context length is (\d+) tokens|input length \((\d+)\)/;

export function anthropicError(thrown: unknown): ApiError {
  const error = openAiError(thrown, "messages");
  const message = error.code === "context_length_exceeded" ? tooLong(error.message) : error.message;
  const status = error.status === UNAVAILABLE ? OVERLOADED : error.status;
  return new ApiError({ status, type: error.type, code: error.code, param: error.param, message });
}

export function anthropicErrorBody({ status, message }: ApiError, requestId?: string): unknown {
  const other = status < MIN_SERVER_STATUS ? "invalid_request_error" : "api_error";
  const error = { type: TYPES.get(status) ?? other, message };
  return { type: "error", error, ...(requestId === undefined ? {} : { request_id: requestId }) };
}

/** Clients match this text, and shorten the conversation. */
function tooLong(message: string): string {
  const prompt = PROMPT_COUNT.exec(message);
  const context = CONTEXT_COUNT.exec(message);
  if (prompt === null || context === null) return `prompt is too long: ${message}`;
  return `prompt is too long: ${prompt[1] ?? prompt[2]} tokens > ${context[1] ?? context[2]} maximum`;
}
