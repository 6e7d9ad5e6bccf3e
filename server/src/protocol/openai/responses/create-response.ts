/** POST /v1/responses. Source: OpenAI's API reference, "Create a model response". */
import type { TextModel } from "../../../text-model/text-model.ts";
import type { ApiReply, RouteCall } from "../../api/route.ts";
import { TextStream } from "../../api/text-stream.ts";
import { jsonReply } from "../../http/http-reply.ts";
import { type PreparedChat, prepareChat } from "../chat/prompt.ts";
import { type ChunkSource, type IndexedChunk, openGenerations } from "../open-generations.ts";
import { findModel, nowSeconds, type OpenAiContext, startCall } from "../openai-context.ts";
import { asChat, placed, wantsEncodedReasoning } from "./as-chat.ts";
import { messagesOf } from "./conversation.ts";
import { wantsSummary } from "./reasoning-options.ts";
import type { ResponseRequest } from "./request.ts";
import { responseError } from "./response-error.ts";
import { ResponseEvents } from "./response-events.ts";
import { type RunningOptions, RunningResponse } from "./running-response.ts";
import { addedTools, type ResponseTools, readResponseTools } from "./tools.ts";

/** @throws ApiError @throws ClientGone */
export async function createResponse(
  context: OpenAiContext,
  body: ResponseRequest,
  route: RouteCall,
): Promise<ApiReply> {
  const model = await findModel(context, body.model);
  const call = startCall(context, model.served.name, route);
  try {
    const tools = readResponseTools(body, addedTools(body.input));
    const chat = await prepareChat(
      model,
      asChat(body, messagesOf(body.instructions, placed(body.input, "input"))),
      tools,
    );
    const source = await openGenerations(chat.generator, [chat.request], 1, call);
    const first = await source.next(); // an error before the first chunk has a status of its own
    const options = runningOptions(model, body, chat, tools, route.requestId);
    return body.stream === true ? streamed(options, first, source) : await whole(options, first, source);
  } catch (error) {
    throw responseError(error);
  }
}

function runningOptions(
  model: TextModel,
  body: ResponseRequest,
  chat: PreparedChat,
  { origins }: ResponseTools,
  requestId: string,
): RunningOptions {
  return {
    facts: { id: `resp_${requestId.slice(4)}`, createdAt: nowSeconds(), body },
    parser: chat.openParser(),
    origins,
    reasoning: { isSummary: wantsSummary(body.reasoning ?? {}), isEncoded: wantsEncodedReasoning(body) },
    countTokens: (text) => model.numTokens(text),
  };
}

function streamed(options: RunningOptions, first: IndexedChunk | undefined, source: ChunkSource): ApiReply {
  return {
    status: 200,
    contentType: "text/event-stream; charset=utf-8",
    headers: ["cache-control", "no-cache"],
    chunks: new TextStream(first, source, new ResponseEvents(options, () => undefined)),
  };
}

async function whole(options: RunningOptions, first: IndexedChunk | undefined, source: ChunkSource): Promise<ApiReply> {
  const response = new RunningResponse(options, () => undefined);
  for (let next = first; next !== undefined; next = await source.next()) response.read(next.chunk);
  response.end();
  return jsonReply(response.object());
}
