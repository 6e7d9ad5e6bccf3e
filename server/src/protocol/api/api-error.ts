/**
 * Refusals of the JSON APIs in OpenAI's terms: status, type, code and the parameter. Each protocol writes its own form.
 * Source: OpenAI's API reference, "Error codes".
 */

export type ErrorType =
  | "invalid_request_error"
  | "authentication_error"
  | "permission_error"
  | "rate_limit_error"
  | "server_error";

export interface ApiErrorParts {
  readonly status: number;
  readonly type: ErrorType;
  readonly code: string | null;
  /** Path of the parameter that is wrong: `messages[0].role`. */
  readonly param: string | null;
  readonly message: string;
  /** Name of the model that was looked for and not found. */
  readonly model?: string | undefined;
}

export class ApiError extends Error implements ApiErrorParts {
  readonly status: number;
  readonly type: ErrorType;
  readonly code: string | null;
  readonly param: string | null;
  readonly model: string | undefined;

  constructor({ status, type, code, param, message, model }: ApiErrorParts) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.type = type;
    this.code = code;
    this.param = param;
    this.model = model;
  }
}

export function invalidRequest(param: string | null, code: string | null, message: string): ApiError {
  return new ApiError({ status: 400, type: "invalid_request_error", code, param, message });
}

export function invalidParameter(path: string, code: string, message: string): ApiError {
  return invalidRequest(path === "" ? null : path, code, message);
}

export function missingParameter(path: string): ApiError {
  return invalidRequest(path, "missing_required_parameter", `Missing required parameter: '${path}'.`);
}

export function unsupportedParameter(path: string, why: string): ApiError {
  return invalidRequest(path, "unsupported_parameter", `Unsupported parameter: '${path}'. ${why}`);
}

export function unsupportedValue(path: string, why: string): ApiError {
  return invalidRequest(path, "unsupported_value", `Unsupported value: '${path}'. ${why}`);
}

/** As the routes that generate say it: OpenAI names no parameter there. */
export function unknownModel(name: string): ApiError {
  return modelNotFound(name, `The model \`${name}\` does not exist or you do not have access to it.`, null);
}

/** As `GET /v1/models/{model}` says it. */
export function unlistedModel(name: string): ApiError {
  return modelNotFound(name, `The model '${name}' does not exist`, "model");
}

function modelNotFound(model: string, message: string, param: string | null): ApiError {
  return new ApiError({ status: 404, type: "invalid_request_error", code: "model_not_found", param, message, model });
}
