/** POST /v1/messages and /v1/messages/count_tokens. Source: Anthropic's API reference, "Create a Message", "Count tokens". */
import type { TextModel } from "../../text-model/text-model.ts";
import type { TextUsage } from "../../text-model/text-request.ts";
import { unsupportedParameter } from "../api/api-error.ts";
import type { ApiReply, RouteCall } from "../api/route.ts";
import { TextStream } from "../api/text-stream.ts";
import { jsonReply } from "../http/http-reply.ts";
import { ChatChoice } from "../openai/chat/chat-choice.ts";
import { type PreparedChat, prepareChat } from "../openai/chat/prompt.ts";
import { type ChunkSource, type IndexedChunk, openGenerations } from "../openai/open-generations.ts";
import { findModel, type OpenAiContext, startCall } from "../openai/openai-context.ts";
import { asChat, asChatPrompt } from "./as-chat.ts";
import type { ReasoningDisplay } from "./message-blocks.ts";
import { endOf, type MessageEnd } from "./message-end.ts";
import { MessageEvents, messageOf } from "./message-events.ts";
import type { MessagesRequest, PromptFields } from "./messages-request.ts";
import { readTools } from "./tools.ts";
import { WholeMessage } from "./whole-message.ts";

/** One message on its way. */
interface Answer {
  readonly model: TextModel;
  readonly body: MessagesRequest;
  readonly chat: PreparedChat;
  readonly id: string;
}

/** @throws ApiError @throws ServerError @throws ClientGone */
export async function createMessage(
  context: OpenAiContext,
  body: MessagesRequest,
  route: RouteCall,
): Promise<ApiReply> {
  expectBudget(body);
  const model = await findModel(context, body.model, route.access);
  const call = startCall(context, model.served.name, route);
  const chat = await prepareChat(model, asChat(body), readTools(body.tools, body.tool_choice));
  const source = await openGenerations(chat.generator, [chat.request], 1, call);
  const first = await source.next(); // an error before the first chunk has a status of its own
  const answer = { model, body, chat, id: `msg_${route.requestId.slice(4)}` };
  return body.stream === true ? streamed(answer, first, source) : jsonReply(await whole(answer, first, source));
}

/** @throws ApiError @throws ServerError of the template */
export async function countMessageTokens(
  context: OpenAiContext,
  body: PromptFields,
  route: RouteCall,
): Promise<unknown> {
  const model = await findModel(context, body.model, route.access);
  const tools = readTools(body.tools, body.tool_choice);
  const { request } = await prepareChat(model, asChatPrompt(body), tools);
  const tokens = await model.encode(request.prompt, request.addSpecialTokens);
  return { input_tokens: tokens.length };
}

function expectBudget({ thinking, max_tokens: maxTokens }: MessagesRequest): void {
  if (thinking?.budgetTokens === undefined || thinking.budgetTokens < maxTokens) return;
  throw unsupportedParameter("thinking.budget_tokens", "`max_tokens` must be greater than `thinking.budget_tokens`.");
}

function streamed({ model, body, chat, id }: Answer, first: IndexedChunk | undefined, source: ChunkSource): ApiReply {
  const writer = new MessageEvents({
    id,
    model: body.model,
    maxTokens: body.max_tokens,
    parser: chat.openParser(),
    display: displayOf(body),
    numTokens: (text) => model.numTokens(text),
  });
  return {
    status: 200,
    contentType: "text/event-stream; charset=utf-8",
    headers: ["cache-control", "no-cache"],
    chunks: new TextStream(first, source, writer),
  };
}

async function whole(answer: Answer, first: IndexedChunk | undefined, source: ChunkSource): Promise<unknown> {
  const { model, body, chat } = answer;
  const choice = new ChatChoice(chat.openParser());
  const message = new WholeMessage(displayOf(body));
  let usage: TextUsage = { promptTokens: undefined, outputTokens: undefined, cachedTokens: 0 };
  let end: MessageEnd | undefined;
  for (let next = first; next !== undefined; next = await source.next()) {
    const { deltas, finish } = choice.read(next.chunk);
    message.add(deltas);
    usage = next.chunk.usage;
    if (finish !== undefined) end = endOf(finish, next.chunk, body.max_tokens);
  }
  const thinkingTokens = model.numTokens(message.reasoning);
  return messageOf({ id: answer.id, model: body.model }, message.content(), end, usage, thinkingTokens);
}

/** Without `thinking` a client expects text first. */
function displayOf({ thinking }: MessagesRequest): ReasoningDisplay {
  return { isShown: thinking?.isOn ?? false, isOmitted: thinking?.isOmitted ?? false };
}
