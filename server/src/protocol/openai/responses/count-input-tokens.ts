/** POST /v1/responses/input_tokens. Source: OpenAI's API reference, "Get input token counts". */
import { prepareChat } from "../chat/prompt.ts";
import { findModel, type OpenAiContext } from "../openai-context.ts";
import { asChatPrompt, placed } from "./as-chat.ts";
import { messagesOf } from "./conversation.ts";
import type { PromptFields } from "./request.ts";
import { responseError } from "./response-error.ts";
import { addedTools, readResponseTools } from "./tools.ts";

/** @throws ApiError */
export async function countInputTokens(context: OpenAiContext, body: PromptFields): Promise<unknown> {
  const model = await findModel(context, body.model);
  try {
    const tools = readResponseTools(body, addedTools(body.input));
    const messages = messagesOf(body.instructions, placed(body.input, "input"));
    const { request } = await prepareChat(model, asChatPrompt(body, messages), tools);
    const tokens = await model.encode(request.prompt, request.addSpecialTokens);
    return { object: "response.input_tokens", input_tokens: tokens.length };
  } catch (error) {
    throw responseError(error);
  }
}
