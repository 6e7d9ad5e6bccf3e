/**
 * POST /v1/responses/compact: the conversation as its users' messages and one item that stands for the rest. The model
 * itself writes the summary in that item. Source: OpenAI's API reference, "Compact a response"; guide "Conversation state".
 */
import type { TextModel } from "../../../text-model/text-model.ts";
import type { CallFacts } from "../../../text-model/text-request.ts";
import type { ApiReply, RouteCall } from "../../api/route.ts";
import type { JsonObject } from "../../api/schema.ts";
import { jsonReply } from "../../http/http-reply.ts";
import { ChatChoice, WholeChoice } from "../chat/chat-choice.ts";
import type { ReadMessage } from "../chat/messages.ts";
import { prepareChat } from "../chat/prompt.ts";
import type { Tools } from "../chat/tools.ts";
import { openGenerations } from "../open-generations.ts";
import { findModel, nowSeconds, startCall } from "../openai-context.ts";
import { UsageSum } from "../usage.ts";
import { asChat } from "./as-chat.ts";
import { messagesOf } from "./conversation.ts";
import { prepareFitting } from "./fit-context.ts";
import { newItemId } from "./input-items.ts";
import { encodeText } from "./opaque-text.ts";
import type { CompactRequest, ResponseRequest } from "./request.ts";
import { resolveInput } from "./resolve-input.ts";
import { responseError } from "./response-error.ts";
import { usageObject } from "./response-object.ts";
import { ownerOf, type ResponsesContext } from "./responses-context.ts";

/** Tokens; fewer where the context is short. */
const MAX_SUMMARY_TOKENS = 1024;
const NO_TOOLS: Tools = { list: [], choice: "none", isParallel: true };
const TASK =
  "Write a summary of the conversation below, for an assistant who goes on with it and does not see it. Keep the goal, " +
  "decisions, facts, names, file paths, results of tools, and the steps that are left. Leave out everything else. " +
  "Answer with the summary alone.";

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
    const { text, usage } = await summarize(model, body, messages, call);
    const compaction = { id: newItemId("cmp"), type: "compaction", encrypted_content: encodeText(text) };
    return jsonReply({
      id: `resp_${route.requestId.slice(4)}`,
      object: "response.compaction",
      created_at: nowSeconds(),
      output: [...items.map(({ item }) => item).filter(isKept), compaction],
      usage,
    });
  } catch (error) {
    throw responseError(error);
  }
}

/** Messages that are not the assistant's: their words hold as they are. */
function isKept({ type, role }: JsonObject): boolean {
  return type === "message" && role !== "assistant";
}

interface Summary {
  readonly text: string;
  readonly usage: JsonObject | null;
}

/** The oldest messages are left out of a conversation that is longer than the context. */
async function summarize(
  model: TextModel,
  body: ResponseRequest,
  messages: readonly ReadMessage[],
  call: CallFacts,
): Promise<Summary> {
  const request = { ...body, max_output_tokens: MAX_SUMMARY_TOKENS };
  const chat = await prepareFitting(model, messages.map(asLine), MAX_SUMMARY_TOKENS, (lines) => {
    const text = `${TASK}\n\n<conversation>\n${lines.map(({ message }) => message.content).join("\n\n")}\n</conversation>`;
    return prepareChat(model, asChat(request, [userMessage(text)]), NO_TOOLS);
  });
  const source = await openGenerations(chat.generator, [chat.request], 1, call);
  const reader = new ChatChoice(chat.openParser());
  const choice = new WholeChoice();
  const usage = new UsageSum(1);
  for (let next = await source.next(); next !== undefined; next = await source.next()) {
    choice.add(reader.read(next.chunk), []);
    usage.set(0, next.chunk.usage);
  }
  const { content, reasoning } = choice;
  const counts = usage.value(model.numTokens(reasoning));
  // A model that has not come to an end of its reasoning has said what matters there.
  return { text: content.trim() || reasoning.trim(), usage: counts === undefined ? null : usageObject(counts) };
}

/** Any of them may come first, once those before it are left out. */
function asLine({ message }: ReadMessage): ReadMessage {
  const { role, content, tool_calls: calls = [] } = message;
  const parts =
    typeof content === "string"
      ? [content]
      : (content ?? []).map((part) => (part.type === "text" ? part.text : "(image)"));
  const called = calls.map(({ function: { name, arguments: given } }) => `calls ${name}(${JSON.stringify(given)})`);
  return userMessage(`${role}: ${[...parts, ...called].join("\n")}`);
}

function userMessage(content: string): ReadMessage {
  return { message: { role: "user", content }, images: [] };
}
