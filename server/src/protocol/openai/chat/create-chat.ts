/** POST /v1/chat/completions. Source: OpenAI's API reference, "Create chat completion". */
import type { TextModel } from "../../../text-model/text-model.ts";
import { invalidParameter } from "../../api/api-error.ts";
import type { ApiReply, RouteCall } from "../../api/route.ts";
import { jsonReply } from "../../http/http-reply.ts";
import { EventStream } from "../event-stream.ts";
import { expectTogether, servedTier } from "../generation-fields.ts";
import { chatLogProbs } from "../log-probs.ts";
import { type ChunkSource, type IndexedChunk, openGenerations } from "../open-generations.ts";
import { findModel, nowSeconds, type OpenAiContext, startCall } from "../openai-context.ts";
import { openAiError } from "../openai-error.ts";
import { UsageSum } from "../usage.ts";
import { ChatChoice, WholeChoice } from "./chat-choice.ts";
import { ChatEvents } from "./events.ts";
import { type PreparedChat, prepareChat } from "./prompt.ts";
import type { ChatRequest } from "./request.ts";
import { readTools } from "./tools.ts";

const PROMPT_PARAM = "messages";

/** One answer on its way. */
interface Answer {
  readonly model: TextModel;
  readonly body: ChatRequest;
  readonly chat: PreparedChat;
  /** Names of custom tools. */
  readonly custom: ReadonlySet<string>;
  readonly id: string;
  readonly created: number;
}

/** @throws ApiError @throws ClientGone */
export async function createChatCompletion(
  context: OpenAiContext,
  body: ChatRequest,
  route: RouteCall,
): Promise<ApiReply> {
  expectLogProbs(body);
  expectTogether(body);
  const model = await findModel(context, body.model, route.access);
  const call = startCall(context, model.served.name, route);
  try {
    const tools = readTools(body);
    const chat = await prepareChat(model, body, tools);
    const source = await openGenerations(chat.generator, [chat.request], body.n ?? 1, call);
    const first = await source.next(); // an error before the first chunk has a status of its own
    const answer = {
      model,
      body,
      chat,
      custom: tools.custom,
      id: `chatcmpl-${route.requestId.slice(4)}`,
      created: nowSeconds(),
    };
    return body.stream === true ? streamed(answer, first, source) : jsonReply(await whole(answer, first, source));
  } catch (error) {
    throw openAiError(error, PROMPT_PARAM, body.response_format === undefined ? "tools" : "response_format");
  }
}

function expectLogProbs({ logprobs, top_logprobs: top }: ChatRequest): void {
  if (top === undefined || logprobs === true) return;
  const text = "Invalid value for 'top_logprobs': 'top_logprobs' is only allowed when 'logprobs' is true.";
  throw invalidParameter("top_logprobs", "invalid_value", text);
}

function streamed(answer: Answer, first: IndexedChunk | undefined, source: ChunkSource): ApiReply {
  const { body, chat } = answer;
  const head = JSON.stringify(headOf(answer, "chat.completion.chunk")).slice(0, -1);
  const options = body.stream_options;
  const writer = new ChatEvents({
    head,
    numChoices: body.n ?? 1,
    openParser: chat.openParser,
    callFinish: chat.callFinish,
    custom: answer.custom,
    includesUsage: options?.include_usage === true,
    usageInEach: options?.continuous_usage_stats === true,
    hasLogProbs: body.logprobs === true,
    includesReasoning: body.include_reasoning !== false,
    countReasoning: (text) => answer.model.numTokens(text),
  });
  const chunks = new EventStream(first, source, writer, PROMPT_PARAM);
  return {
    status: 200,
    contentType: "text/event-stream; charset=utf-8",
    headers: ["cache-control", "no-cache"],
    chunks,
  };
}

async function whole(answer: Answer, first: IndexedChunk | undefined, source: ChunkSource): Promise<unknown> {
  const { body, chat, model, custom } = answer;
  const numChoices = body.n ?? 1;
  const usage = new UsageSum(numChoices);
  const parts = Array.from({ length: numChoices }, () => ({
    reader: new ChatChoice(chat.openParser(), chat.callFinish, custom),
    choice: new WholeChoice(),
  }));
  for (let next = first; next !== undefined; next = await source.next()) {
    const { index, chunk } = next;
    const part = parts[index];
    part?.choice.add(part.reader.read(chunk), chunk.scores);
    usage.set(index, chunk.usage);
  }
  const choices = parts.map(({ choice }, index) => choiceObject(choice, index, body));
  const reasoning = parts.map(({ choice }) => choice.reasoning).join("");
  const counts = usage.value(model.numTokens(reasoning));
  return { ...headOf(answer, "chat.completion"), choices, ...(counts === undefined ? {} : { usage: counts }) };
}

function headOf({ body, model, id, created }: Answer, object: string): Readonly<Record<string, unknown>> {
  const { name, version } = model.served;
  const tier = body.service_tier;
  return {
    id,
    object,
    created,
    model: body.model,
    ...(tier === undefined ? {} : { service_tier: servedTier(tier) }),
    system_fingerprint: `fp_${name}_${version}`,
  };
}

function choiceObject(choice: WholeChoice, index: number, body: ChatRequest): unknown {
  const { calls, content, reasoning } = choice;
  const message = {
    role: "assistant",
    content: calls.length > 0 && content === "" ? null : content,
    refusal: null,
    ...(reasoning === "" || body.include_reasoning === false ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  const logprobs = body.logprobs === true ? chatLogProbs(choice.scores) : null;
  return { index, message, logprobs, finish_reason: choice.finish };
}
