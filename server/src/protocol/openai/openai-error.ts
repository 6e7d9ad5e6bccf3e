/** Anything thrown as OpenAI's error object. Source: OpenAI's API reference, "Error codes". */
import { type ErrorCode, ServerError } from "../../core/server-error.ts";
import { FieldError, type TextField } from "../../text-model/field-error.ts";
import { ApiError, type ErrorType, invalidRequest, unknownModel } from "../api/api-error.ts";

const STATUS: Readonly<Record<ErrorCode, readonly [status: number, type: ErrorType, code: string | null]>> = {
  unknown: [400, "invalid_request_error", null],
  internal: [500, "server_error", null],
  not_found: [404, "invalid_request_error", "not_found"],
  invalid_argument: [400, "invalid_request_error", null],
  unavailable: [503, "server_error", "service_unavailable"],
  unsupported: [400, "invalid_request_error", "unsupported_parameter"],
  already_exists: [409, "invalid_request_error", null],
  cancelled: [499, "invalid_request_error", "request_cancelled"],
};

const PARAMS: Readonly<Record<TextField, string>> = {
  prompt: "prompt",
  images: "messages",
  maxTokens: "max_tokens",
  minTokens: "min_tokens",
  temperature: "temperature",
  topP: "top_p",
  topK: "top_k",
  minP: "min_p",
  repetitionPenalty: "repetition_penalty",
  presencePenalty: "presence_penalty",
  frequencyPenalty: "frequency_penalty",
  seed: "seed",
  badWords: "bad_words",
  ignoresEos: "ignore_eos",
  logitBias: "logit_bias",
  logProbs: "logprobs",
  promptLogProbs: "echo",
  guide: "response_format",
  adapter: "model",
  cacheSalt: "prompt_cache_key",
};

/** The engine's refusal of a prompt that its cache cannot hold. */
const TOO_LONG = /^Prompt length \(\d+\) exceeds maximum input length/;

/** The engine's refusal of an adapter that the model does not have. */
const NO_ADAPTER = /^no adapter is named '([^']*)'/;

/** The engine's refusal of a schema, a grammar or an expression that its grammar library cannot read. */
const BAD_GUIDE = /^the guide cannot be compiled: (.*)/s;

/** The field from which the output's form came, and OpenAI's code for a schema there that is none. */
const GUIDE_CODES: Readonly<Record<string, string | null>> = {
  response_format: null,
  tools: "invalid_function_parameters",
  "text.format.schema": "invalid_json_schema",
};

/** `promptParam`, `guideParam`: the request's own names for its prompt and for the form of the output. */
export function openAiError(thrown: unknown, promptParam = "prompt", guideParam = "response_format"): ApiError {
  if (thrown instanceof ApiError) return thrown;
  const error = ServerError.from(thrown);
  if (error instanceof FieldError) return fieldError(error, promptParam);
  if (TOO_LONG.test(error.message)) return contextError(error.message, promptParam);
  const [, adapter] = NO_ADAPTER.exec(error.message) ?? [];
  if (adapter !== undefined) return unknownModel(adapter);
  const [, fault] = BAD_GUIDE.exec(error.message) ?? [];
  if (fault !== undefined) {
    return invalidRequest(guideParam, GUIDE_CODES[guideParam] ?? null, `Invalid schema for ${guideParam}: ${fault}`);
  }
  const [status, type, code] = STATUS[error.code];
  return new ApiError({ status, type, code, param: null, message: error.message });
}

export function openAiErrorBody({ message, type, param, code }: ApiError): unknown {
  return { error: { message, type, param, code } };
}

/** The error for a model that was looked for and not found; any other error as it is. */
export function modelError(thrown: unknown, name: string, refusal: (name: string) => ApiError = unknownModel): unknown {
  const isUnknown = thrown instanceof ServerError && (thrown.code === "not_found" || UNKNOWN.test(thrown.message));
  return isUnknown ? refusal(name) : thrown;
}

const UNKNOWN = /unknown model|no available versions|is not found/;

function fieldError(error: FieldError, promptParam: string): ApiError {
  const param = error.field === "prompt" || error.field === "images" ? promptParam : PARAMS[error.field];
  if (error.fault === "context") return contextError(error.message, promptParam);
  const isUnsupported = error.fault === "unsupported";
  const message = isUnsupported ? `Unsupported parameter: '${param}': ${error.message}.` : error.message;
  const code = isUnsupported ? "unsupported_parameter" : "invalid_value";
  return new ApiError({ status: 400, type: "invalid_request_error", code, param, message });
}

function contextError(message: string, param: string): ApiError {
  return new ApiError({ status: 400, type: "invalid_request_error", code: "context_length_exceeded", param, message });
}
