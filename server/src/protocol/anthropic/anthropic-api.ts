/** Anthropic's API: its one table of routes. Source: Anthropic's API reference. */
import { JsonApi, type JsonApiParts } from "../api/json-api.ts";
import { type ApiRoute, postRoute } from "../api/route.ts";
import { jsonReply } from "../http/http-reply.ts";
import type { OpenAiContext } from "../openai/openai-context.ts";
import { anthropicError, anthropicErrorBody } from "./anthropic-error.ts";
import { countMessageTokens, createMessage } from "./create-message.ts";
import { COUNT_TOKENS_REQUEST, MESSAGES_REQUEST } from "./messages-request.ts";

export type AnthropicApiParts = OpenAiContext &
  Pick<JsonApiParts, "restricted" | "openAiRestricted" | "maxBodyBytes" | "log" | "load" | "keys">;

export function createAnthropicApi({ server, models, ...parts }: AnthropicApiParts): JsonApi {
  return new JsonApi({
    ...parts,
    routes: anthropicRoutes({ server, models }),
    errorOf: anthropicError,
    errorBody: anthropicErrorBody,
    idHeader: "request-id",
  });
}

export function anthropicRoutes(context: OpenAiContext): readonly ApiRoute[] {
  return [
    postRoute("/v1/messages", "inference", "Answer a conversation", MESSAGES_REQUEST, (body, route) =>
      createMessage(context, body, route),
    ),
    postRoute(
      "/v1/messages/count_tokens",
      "inference",
      "Count the tokens of a conversation",
      COUNT_TOKENS_REQUEST,
      async (body, route) => jsonReply(await countMessageTokens(context, body, route)),
    ),
  ];
}
