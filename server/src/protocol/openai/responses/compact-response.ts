/**
 * POST /v1/responses/compact: the conversation as its users' messages and one item that stands for the rest. Source: OpenAI's
 * API reference, "Compact a response"; guide "Conversation state".
 */
import type { ApiReply, RouteCall } from "../../api/route.ts";
import type { JsonObject } from "../../api/schema.ts";
import { jsonReply } from "../../http/http-reply.ts";
import { findModel, nowSeconds, startCall } from "../openai-context.ts";
import { UsageSum } from "../usage.ts";
import { compacted } from "./compaction.ts";
import { messagesOf } from "./conversation.ts";
import type { CompactRequest } from "./request.ts";
import { resolveInput } from "./resolve-input.ts";
import { responseError } from "./response-error.ts";
import { usageObject } from "./response-object.ts";
import { ownerOf, type ResponsesContext } from "./responses-context.ts";

/** @throws ApiError @throws ClientGone */
export async function compactResponse(
  context: ResponsesContext,
  { input = [], ...fields }: CompactRequest,
  route: RouteCall,
): Promise<ApiReply> {
  const body = { ...fields, input };
  const model = await findModel(context, body.model, route.access);
  try {
    const items = resolveInput(context.store, ownerOf(route), body).items;
    const messages = messagesOf(body.instructions, items);
    const call = startCall(context, model.served.name, route);
    const { item: compaction, reasoning, usage } = await compacted(model, body, messages, call);
    const sum = new UsageSum(1);
    if (usage !== undefined) sum.set(0, usage);
    const counts = sum.value(model.numTokens(reasoning));
    return jsonReply({
      id: `resp_${route.requestId.slice(4)}`,
      object: "response.compaction",
      created_at: nowSeconds(),
      output: [...items.map(({ item }) => item).filter(isKept), compaction],
      usage: counts === undefined ? null : usageObject(counts),
    });
  } catch (error) {
    throw responseError(error);
  }
}

/** Messages that are not the assistant's: their words hold as they are. */
function isKept({ type, role }: JsonObject): boolean {
  return type === "message" && role !== "assistant";
}
