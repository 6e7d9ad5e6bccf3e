/** Refusals of an API key as errors of the JSON APIs. Source: OpenAI's API reference, "Error codes". */
import { AccessRefusal } from "../../access/access-refusal.ts";
import { REFUSAL_STATUS } from "../call-access.ts";
import { ApiError, type ApiErrorParts } from "./api-error.ts";

const PARTS: Readonly<Record<AccessRefusal["reason"], Pick<ApiErrorParts, "type" | "code">>> = {
  unauthenticated: { type: "authentication_error", code: "invalid_api_key" },
  forbidden: { type: "permission_error", code: "model_access_denied" },
  limited: { type: "rate_limit_error", code: "rate_limit_exceeded" },
  exhausted: { type: "rate_limit_error", code: "insufficient_quota" },
};

/** Refusals as errors of an API; everything else as it is. */
export function accessError(thrown: unknown): unknown {
  if (!(thrown instanceof AccessRefusal)) return thrown;
  const status = REFUSAL_STATUS[thrown.reason];
  return new ApiError({ ...PARTS[thrown.reason], status, param: null, message: thrown.message });
}
