/**
 * Errors and the list of models, as OpenAI gives them. `triton-form.ts` gives them as Triton's own OpenAI front end does.
 * Source: OpenAI's API reference, "Error codes", "Models".
 */
import type { ApiError } from "../api/api-error.ts";
import type { HttpCall } from "../http/http-call.ts";
import { openAiError, openAiErrorBody } from "./openai-error.ts";

export interface OpenAiForm {
  errorOf(thrown: unknown, call: Pick<HttpCall, "method">): ApiError;
  errorBody(error: ApiError): unknown;
  /** `owned_by` of every model. */
  readonly owner: string;
  /** Whether models that no route of the API serves are listed too. */
  readonly listsAllModels: boolean;
}

export const OPENAI_FORM: OpenAiForm = {
  errorOf: (thrown) => openAiError(thrown),
  errorBody: openAiErrorBody,
  owner: "nereid",
  listsAllModels: false,
};
