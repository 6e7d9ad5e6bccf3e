/** Errors of responses: those of chats, in the names of this API's parameters. Source: OpenAI's API reference, "Error codes". */
import { ApiError } from "../../api/api-error.ts";
import { openAiError } from "../openai-error.ts";

const INPUT_PARAM = "input";

const NAMES: Readonly<Record<string, string>> = {
  messages: INPUT_PARAM,
  prompt: INPUT_PARAM,
  max_tokens: "max_output_tokens",
  max_completion_tokens: "max_output_tokens",
  response_format: "text.format",
  "response_format.type": "text.format.type",
  logprobs: "include",
  reasoning_effort: "reasoning.effort",
};

export function responseError(thrown: unknown): ApiError {
  const error = openAiError(thrown, INPUT_PARAM, "text.format.schema");
  const { param } = error;
  if (param === null || !Object.hasOwn(NAMES, param)) return error;
  const own = NAMES[param] ?? param;
  const { status, type, code, message } = error;
  return new ApiError({ status, type, code, param: own, message: message.replaceAll(`'${param}'`, `'${own}'`) });
}

export function unknownResponse(id: string): ApiError {
  const message = `Response with id '${id}' not found.`;
  return new ApiError({ status: 404, type: "invalid_request_error", code: null, param: null, message });
}
