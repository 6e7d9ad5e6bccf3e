/** Routes of OpenAI's Responses API. Source: OpenAI's API reference, "Responses". */
import { type ApiRoute, postRoute } from "../../api/route.ts";
import { jsonReply } from "../../http/http-reply.ts";
import type { OpenAiContext } from "../openai-context.ts";
import { countInputTokens } from "./count-input-tokens.ts";
import { createResponse } from "./create-response.ts";
import { INPUT_TOKENS_REQUEST, RESPONSE_REQUEST } from "./request.ts";

export function responsesRoutes(context: OpenAiContext): readonly ApiRoute[] {
  return [
    postRoute("/v1/responses", "inference", "Answer a conversation of items", RESPONSE_REQUEST, (body, route) =>
      createResponse(context, body, route),
    ),
    postRoute(
      "/v1/responses/input_tokens",
      "inference",
      "Count the tokens of a conversation of items",
      INPUT_TOKENS_REQUEST,
      async (body) => jsonReply(await countInputTokens(context, body)),
    ),
  ];
}
