/**
 * Errors and the list of models in the form of Triton's own OpenAI front end (`--openai-frontend=triton`), for clients that
 * match its texts. Errors are FastAPI's: `detail` is a text, or with status 422 a list with one entry a wrong field.
 * Source: triton-inference-server/server, python/openai; FastAPI, "Handling Errors".
 */
import { ApiError } from "../api/api-error.ts";
import type { HttpCall } from "../http/http-call.ts";
import { openAiError } from "./openai-error.ts";
import type { OpenAiForm } from "./openai-form.ts";

/** OpenAI's codes of wrong fields, and the names of the same errors in pydantic. */
const FIELD_ERRORS: Readonly<Record<string, string>> = {
  missing_required_parameter: "missing",
  invalid_type: "type_error",
  integer_below_min_value: "greater_than_equal",
  decimal_below_min_value: "greater_than_equal",
  integer_above_max_value: "less_than_equal",
  decimal_above_max_value: "less_than_equal",
  string_above_max_length: "string_too_long",
  empty_array: "too_short",
  empty_string: "too_short",
  array_above_max_length: "too_long",
};

/** The expected type in OpenAI's text, and in pydantic's. */
const TYPE_NAMES: readonly (readonly [openAi: string, pydantic: string])[] = [
  ["a string", "string"],
  ["an integer", "integer"],
  ["a decimal", "number"],
  ["a boolean", "boolean"],
  ["an array", "list"],
  ["an object", "dictionary"],
];

/** Texts for rules between fields, by the field that breaks them. */
const RULES: Readonly<Record<string, string>> = {
  stream_options: "`stream_options` can only be used when `stream` is True",
  top_logprobs: "`top_logprobs` can only be used when `logprobs` is True",
};

/** OpenAI's text for a value that is none of a list. */
const CHOICES = /Supported values are/;

export const TRITON_FORM: OpenAiForm = {
  errorOf: (thrown, call) => tritonError(openAiError(thrown), call),
  errorBody: tritonErrorBody,
  owner: "Triton Inference Server",
  listsAllModels: true,
};

function tritonError(error: ApiError, { method }: Pick<HttpCall, "method">): ApiError {
  const { type, code, param, message } = error;
  switch (code) {
    case "model_not_found":
      return new ApiError({
        status: method === "GET" ? 404 : 400,
        type,
        code,
        param,
        message: unknownModelText(message),
      });
    case "restricted_api":
      return new ApiError({ status: 401, type, code, param, message });
    case "request_too_large":
      return new ApiError({ status: 413, type, code: "content_too_large", param, message: tooLargeText(message) });
    case "invalid_value":
      if (CHOICES.test(message)) return new ApiError({ status: 422, type, code, param, message });
      return new ApiError({ status: 400, type, code, param, message: RULES[param ?? ""] ?? message });
    default:
      if (param === null || !Object.hasOwn(FIELD_ERRORS, code ?? "")) return error;
      return new ApiError({ status: 422, type, code, param, message });
  }
}

function tritonErrorBody(error: ApiError): unknown {
  const { status, type, code, message } = error;
  if (status === 413 || code === "invalid_auth") return { error: { message, type, code } };
  return { detail: status === 422 ? [fieldDetail(error)] : message };
}

function fieldDetail({ code, param, message }: ApiError): unknown {
  const loc = ["body", ...(param ?? "").split(/[.[\]]+/).filter((part) => part !== "")];
  return {
    type: FIELD_ERRORS[code ?? ""] ?? "literal_error",
    loc: loc.map((part) => (/^\d+$/.test(part) ? Number(part) : part)),
    msg: fieldText(code, param, message),
  };
}

function fieldText(code: string | null, param: string | null, message: string): string {
  const [, sign, bound] = /Expected a value (>=|<=) (\S+),/.exec(message) ?? [];
  if (bound !== undefined) {
    return `Input should be ${sign === "<=" ? "less" : "greater"} than or equal to ${bound}`;
  }
  switch (code) {
    case "missing_required_parameter":
      return "Field required";
    case "empty_array":
    case "empty_string":
      return `${param === "messages" ? "List" : "Value"} should have at least 1 item after validation, not 0`;
    case "invalid_type": {
      const type = TYPE_NAMES.find(([name]) => message.includes(`expected ${name}`))?.[1];
      return type === undefined ? message : `Input should be a valid ${type}`;
    }
    default:
      return message;
  }
}

function unknownModelText(message: string): string {
  return `Unknown model: ${/^The model ['`](.*)['`] does not exist/s.exec(message)?.[1] ?? ""}`;
}

function tooLargeText(message: string): string {
  const [size, limit] = message.match(/\d+/g) ?? [];
  return `Request size of ${size} bytes exceeds the maximum allowed input size of ${limit} bytes. Use --http-max-input-size to increase the limit.`;
}
