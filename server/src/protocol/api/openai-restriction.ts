/**
 * Restricted access as Triton's own OpenAI front end has it: its groups of routes, and its refusal.
 * Source: triton-inference-server/server, python/openai, "Limit Endpoint Access".
 */
import type { OpenAiRestrictedApi, RestrictedApi } from "../../core/restricted-api.ts";
import { ApiError } from "./api-error.ts";

const EMBEDDING = /embed(dings)?$/;

/** The group of a route of a JSON API: those of Anthropic and Ollama reach the same models. */
export function openAiRestrictedApi(api: RestrictedApi, path: string): OpenAiRestrictedApi {
  switch (api) {
    case "health":
      return "health";
    case "inference":
      return EMBEDDING.test(path) ? "embedding" : "inference";
    case "model-repository":
      return "model-management";
    default:
      return "model-repository";
  }
}

export function restrictedText(header: string): string {
  return `This API is restricted, expecting header '${header}' with valid value`;
}

export function invalidAuth(header: string): ApiError {
  const message = restrictedText(header);
  return new ApiError({ status: 401, type: "authentication_error", code: "invalid_auth", param: null, message });
}
