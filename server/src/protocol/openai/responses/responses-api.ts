/** Routes of OpenAI's Responses API. Source: OpenAI's API reference, "Responses". */
import { type ApiRoute, getRoute, postRoute } from "../../api/route.ts";
import { jsonReply } from "../../http/http-reply.ts";
import type { OpenAiContext } from "../openai-context.ts";
import { compactResponse } from "./compact-response.ts";
import { countInputTokens } from "./count-input-tokens.ts";
import { createResponse } from "./create-response.ts";
import { COMPACT_REQUEST, INPUT_TOKENS_REQUEST, RESPONSE_REQUEST } from "./request.ts";
import { ResponseStore } from "./store/response-store.ts";
import { cancelResponse, deleteResponse, getResponse, listInputItems } from "./stored-routes.ts";

const ONE = "/v1/responses/{id}";

export function responsesRoutes({ server, models }: OpenAiContext): readonly ApiRoute[] {
  const store = new ResponseStore();
  const context = { server, models, store };
  return [
    postRoute("/v1/responses", "inference", "Answer a conversation of items", RESPONSE_REQUEST, (body, route) =>
      createResponse(context, body, route),
    ),
    postRoute(
      "/v1/responses/input_tokens",
      "inference",
      "Count the tokens of a conversation of items",
      INPUT_TOKENS_REQUEST,
      async (body, route) => jsonReply(await countInputTokens(context, body, route)),
    ),
    postRoute(
      "/v1/responses/compact",
      "inference",
      "Shorten a conversation of items to a summary",
      COMPACT_REQUEST,
      (body, route) => compactResponse(context, body, route),
    ),
    getRoute(ONE, "inference", "A response that is kept", (route) => getResponse(store, route)),
    {
      ...getRoute(ONE, "inference", "Delete a response that is kept", (route) => deleteResponse(store, route)),
      method: "DELETE",
    },
    {
      ...getRoute(`${ONE}/cancel`, "inference", "Cancel a background response", (route) =>
        cancelResponse(store, route),
      ),
      method: "POST",
    },
    getRoute(`${ONE}/input_items`, "inference", "Input items of a response", (route) => listInputItems(store, route)),
  ];
}
