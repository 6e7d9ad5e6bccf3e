/** POST /api/chat and /api/generate. Source: Ollama's API reference, "Generate a chat completion", "Generate a completion". */
import { PlainParser } from "../../chat/tools/plain-parser.ts";
import { gapPrompt } from "../../text-model/fill-in-the-middle.ts";
import type { TextModel } from "../../text-model/text-model.ts";
import type { TextChunk } from "../../text-model/text-request.ts";
import { invalidParameter, unsupportedParameter } from "../api/api-error.ts";
import type { ApiReply, RouteCall } from "../api/route.ts";
import { TextStream } from "../api/text-stream.ts";
import { jsonReply } from "../http/http-reply.ts";
import { type PreparedChat, prepareChat } from "../openai/chat/prompt.ts";
import type { ChatRequest } from "../openai/chat/request.ts";
import { textRequestOf } from "../openai/generation-fields.ts";
import { type ChunkSource, type IndexedChunk, openGenerations } from "../openai/open-generations.ts";
import { findModel, type OpenAiContext, startCall } from "../openai/openai-context.ts";
import { type Prepare, prepareFitting } from "../openai/responses/fit-context.ts";
import { type AnswerForm, AnswerLines, loadedAnswer, WholeAnswer } from "./answer-lines.ts";
import { type AnswerPart, AnswerParts } from "./answer-parts.ts";
import { asChat, promptAsChat } from "./as-chat.ts";
import { withContext } from "./conversation-tokens.ts";
import { templateMessages } from "./messages.ts";
import { type AnswerFields, type OllamaChatRequest, type OllamaGenerateRequest, servedName } from "./ollama-request.ts";
import { optionFields } from "./options.ts";

/** @throws ApiError @throws ServerError @throws ClientGone */
export async function chat(context: OpenAiContext, body: OllamaChatRequest, route: RouteCall): Promise<ApiReply> {
  const model = await findModel(context, servedName(body.model), route.access);
  const form = formOf(body, route, messageMembers);
  if ((body.messages ?? []).length === 0) return jsonReply(loadedAnswer(form, loadReason(body)));
  const call = startCall(context, model.served.name, route);
  const prepare: Prepare = (messages) => prepareChat(model, asChat(body, messages));
  const messages = templateMessages(body.messages ?? []);
  const limit = optionFields(body.options ?? {}).max_tokens;
  const prepared = await (body.truncate === false
    ? prepare(messages)
    : prepareFitting(model, messages, limit, prepare));
  return answer(body, form, prepared, await openGenerations(prepared.generator, [prepared.request], 1, call));
}

/** @throws ApiError @throws ServerError @throws ClientGone */
export async function generate(
  context: OpenAiContext,
  body: OllamaGenerateRequest,
  route: RouteCall,
): Promise<ApiReply> {
  const model = await findModel(context, servedName(body.model), route.access);
  const form = formOf(body, route, responseMembers);
  if ((body.prompt ?? "") === "") return jsonReply(loadedAnswer(form, loadReason(body)));
  expectRawAlone(body);
  const call = startCall(context, model.served.name, route);
  const request = promptAsChat(body);
  const isPlain = body.raw === true || (body.suffix ?? "") !== "";
  const plain = isPlain ? preparePlain(model, body, request) : await prepareChat(model, request);
  const { prepared, contextOf } =
    body.raw === true ? { prepared: plain, contextOf: undefined } : await withContext(model, plain, body.context ?? []);
  const source = await openGenerations(prepared.generator, [prepared.request], 1, call);
  return answer(body, { ...form, contextOf }, prepared, source);
}

/** A raw prompt has nothing around it. @throws ApiError */
function expectRawAlone({ raw, system, context }: OllamaGenerateRequest): void {
  if (raw !== true) return;
  const param = (system ?? "") !== "" ? "system" : (context ?? []).length > 0 ? "context" : undefined;
  if (param === undefined) return;
  throw invalidParameter(param, "invalid_value", "raw mode does not support template, system, or context");
}

/** A prompt that goes to the model as it is, or around a gap. @throws ApiError */
function preparePlain(model: TextModel, body: OllamaGenerateRequest, request: ChatRequest): PreparedChat {
  return {
    generator: model,
    request: {
      ...textRequestOf(request),
      prompt: { text: promptText(model, body) },
      images: request.messages.flatMap(({ images }) => images),
      logProbs: request.logprobs === true ? (request.top_logprobs ?? 0) : undefined,
    },
    callFinish: "stop",
    openParser: () => new PlainParser(),
  };
}

function promptText({ name, tokenizer }: TextModel, { prompt = "", suffix = "" }: OllamaGenerateRequest): string {
  if (suffix === "") return prompt;
  const text = tokenizer === undefined ? undefined : gapPrompt(tokenizer, prompt, suffix);
  if (text !== undefined) return text;
  throw unsupportedParameter(
    "suffix",
    `Model '${name}' was not trained to fill a gap: its tokenizer has no tokens for it.`,
  );
}

async function answer(
  body: AnswerFields,
  form: AnswerForm,
  prepared: PreparedChat,
  source: ChunkSource,
): Promise<ApiReply> {
  const first = await source.next(); // an error before the first chunk has a status of its own
  const parts = new AnswerParts(prepared.openParser(), body.think !== false);
  if (body.stream === false) return jsonReply(await whole(new WholeAnswer(form, parts), first, source));
  return {
    status: 200,
    contentType: "application/x-ndjson",
    chunks: new TextStream(first, source, new AnswerLines(form, parts)),
  };
}

async function whole(answer: WholeAnswer, first: IndexedChunk | undefined, source: ChunkSource): Promise<unknown> {
  let last: TextChunk = NO_CHUNK;
  for (let next = first; next !== undefined; next = await source.next()) {
    last = next.chunk;
    answer.add(last);
  }
  return answer.object(last);
}

const NO_CHUNK: TextChunk = {
  text: "",
  scores: [],
  usage: { promptTokens: undefined, outputTokens: undefined, cachedTokens: 0 },
  finish: "stop",
};

function formOf(body: AnswerFields, { call }: RouteCall, membersOf: AnswerForm["membersOf"]): AnswerForm {
  return {
    model: body.model,
    startMs: call.arrivalMs,
    hasLogProbs: body.logprobs === true,
    membersOf,
    contextOf: undefined,
  };
}

/** Models stay loaded here; clients ask for either by an empty prompt. */
function loadReason({ keep_alive: keepAlive }: AnswerFields): "load" | "unload" {
  return keepAlive === 0 || keepAlive === "0" || keepAlive === "0s" ? "unload" : "load";
}

function messageMembers({ content, thinking, calls }: AnswerPart): Readonly<Record<string, unknown>> {
  const message = {
    role: "assistant",
    content,
    ...(thinking === "" ? {} : { thinking }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return { message };
}

function responseMembers({ content, thinking }: AnswerPart): Readonly<Record<string, unknown>> {
  return { response: content, ...(thinking === "" ? {} : { thinking }) };
}
