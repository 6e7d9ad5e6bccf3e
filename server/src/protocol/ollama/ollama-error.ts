/** Anything thrown in Ollama's form: a status and a text. Source: Ollama's API reference, "Errors". */
import { ApiError } from "../api/api-error.ts";
import { openAiError } from "../openai/openai-error.ts";

export function ollamaError(thrown: unknown): ApiError {
  const error = openAiError(thrown, "messages");
  if (error.model === undefined) return error;
  // Clients match this text, and offer to pull the model.
  return new ApiError({ ...error, message: `model '${error.model}' not found` });
}

export function ollamaErrorBody({ message }: Pick<ApiError, "message">): unknown {
  return { error: message };
}
