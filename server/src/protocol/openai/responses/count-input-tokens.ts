/** POST /v1/responses/input_tokens. Source: OpenAI's API reference, "Get input token counts". */
import type { RouteCall } from "../../api/route.ts";
import { prepareChat } from "../chat/prompt.ts";
import { findModel } from "../openai-context.ts";
import { asChatPrompt } from "./as-chat.ts";
import { messagesOf } from "./conversation.ts";
import type { PromptFields } from "./request.ts";
import { resolveInput } from "./resolve-input.ts";
import { responseError } from "./response-error.ts";
import { ownerOf, type ResponsesContext } from "./responses-context.ts";
import { addedTools, readResponseTools } from "./tools.ts";

/** @throws ApiError */
export async function countInputTokens(
  context: ResponsesContext,
  body: PromptFields,
  route: RouteCall,
): Promise<unknown> {
  const model = await findModel(context, body.model, route.access);
  try {
    const { items } = resolveInput(context.store, ownerOf(route), body);
    const tools = readResponseTools(body, addedTools(items.map(({ item }) => item)));
    const messages = messagesOf(body.instructions, items);
    const { request } = await prepareChat(model, asChatPrompt(body, messages), tools);
    const tokens = await model.encode(request.prompt, request.addSpecialTokens);
    return { object: "response.input_tokens", input_tokens: tokens.length };
  } catch (error) {
    throw responseError(error);
  }
}
