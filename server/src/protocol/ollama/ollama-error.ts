/** Anything thrown in Ollama's form: a status and a text. Source: Ollama's API reference, "Errors". */
import { ApiError } from "../api/api-error.ts";
import { openAiError } from "../openai/openai-error.ts";

export function ollamaError(thrown: unknown): ApiError {
  const error = openAiError(thrown, "messages");
  if (error.code !== "model_not_found") return error;
  // Clients match this text, and offer to pull the model.
  const name = /['`](.*)['`] does not exist/.exec(error.message)?.[1] ?? "";
  return new ApiError({ ...error, message: `model '${name}' not found` });
}

export function ollamaErrorBody({ message }: Pick<ApiError, "message">): unknown {
  return { error: message };
}
