/** Ollama's API: its one table of routes. Source: Ollama's API reference (`docs/api.md`). */
import { JsonApi, type JsonApiParts } from "../api/json-api.ts";
import { type ApiRoute, getRoute, postRoute } from "../api/route.ts";
import { jsonReply } from "../http/http-reply.ts";
import type { OpenAiContext } from "../openai/openai-context.ts";
import { chat, generate } from "./create-answer.ts";
import { OllamaModels } from "./describe-models.ts";
import { embed, embedOne } from "./embed.ts";
import { ollamaError, ollamaErrorBody } from "./ollama-error.ts";
import { CHAT, EMBED, EMBEDDINGS, GENERATE, PULL, SHOW } from "./ollama-request.ts";
import { ModelPull } from "./pull.ts";

export type OllamaApiParts = OpenAiContext &
  Pick<JsonApiParts, "restricted" | "openAiRestricted" | "maxBodyBytes" | "log" | "load" | "keys">;

/** The version of Ollama whose API this is: editors refuse servers below the one that they know. */
const API_VERSION = "0.13.0";

export function createOllamaApi({ server, models, ...parts }: OllamaApiParts): JsonApi {
  return new JsonApi({
    ...parts,
    routes: ollamaRoutes({ server, models }),
    prefix: "/api/",
    errorOf: ollamaError,
    errorBody: ollamaErrorBody,
  });
}

export function ollamaRoutes(context: OpenAiContext): readonly ApiRoute[] {
  const models = new OllamaModels(context);
  const pulls = new ModelPull(context);
  const json = async (answer: Promise<unknown>) => jsonReply(await answer);
  return [
    getRoute("/api/version", "metadata", "Version of the API", () => json(Promise.resolve({ version: API_VERSION }))),
    getRoute("/api/tags", "metadata", "List the models", (route) => json(models.tags(route))),
    getRoute("/api/ps", "metadata", "List the models that are loaded", (route) => json(models.running(route))),
    postRoute("/api/show", "metadata", "Describe a model", SHOW, (body, route) => json(models.show(body, route))),
    postRoute("/api/pull", "model-repository", "Load a model of the repository", PULL, (body, route) =>
      pulls.pull(body, route),
    ),
    postRoute("/api/chat", "inference", "Answer a chat", CHAT, (body, route) => chat(context, body, route)),
    postRoute("/api/generate", "inference", "Answer a prompt", GENERATE, (body, route) =>
      generate(context, body, route),
    ),
    postRoute("/api/embed", "inference", "Texts to vectors", EMBED, (body, route) => json(embed(context, body, route))),
    postRoute("/api/embeddings", "inference", "A text to a vector", EMBEDDINGS, (body, route) =>
      json(embedOne(context, body, route)),
    ),
  ];
}
