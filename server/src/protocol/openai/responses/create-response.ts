/** POST /v1/responses. Source: OpenAI's API reference, "Create a model response". */
import type { TextModel } from "../../../text-model/text-model.ts";
import type { CallFacts } from "../../../text-model/text-request.ts";
import { invalidRequest } from "../../api/api-error.ts";
import type { ApiReply, RouteCall } from "../../api/route.ts";
import type { JsonObject } from "../../api/schema.ts";
import { TextStream } from "../../api/text-stream.ts";
import { jsonReply } from "../../http/http-reply.ts";
import { type PreparedChat, prepareChat } from "../chat/prompt.ts";
import { type ChunkSource, openGenerations } from "../open-generations.ts";
import { findModel, nowSeconds, startCall } from "../openai-context.ts";
import { asChat, wantsEncodedReasoning } from "./as-chat.ts";
import { type Compaction, compacted } from "./compaction.ts";
import { messagesOf, type PlacedItem } from "./conversation.ts";
import { type Prepare, prepareFitting } from "./fit-context.ts";
import { wantsSummary } from "./reasoning-options.ts";
import type { ResponseRequest } from "./request.ts";
import { type ResolvedInput, resolveInput } from "./resolve-input.ts";
import { responseError } from "./response-error.ts";
import { ResponseEvents } from "./response-events.ts";
import { ownerOf, type ResponsesContext } from "./responses-context.ts";
import { type RunningOptions, RunningResponse } from "./running-response.ts";
import { BackgroundFacts, BackgroundRun } from "./store/background-run.ts";
import { finalObject } from "./store/final-object.ts";
import { type ObjectSource, StoredResponse } from "./store/stored-response.ts";
import { eventsOf } from "./stored-routes.ts";
import { addedTools, readResponseTools } from "./tools.ts";

/** One response on its way. */
interface Answer {
  readonly context: ResponsesContext;
  readonly body: ResponseRequest;
  readonly route: RouteCall;
  readonly input: ResolvedInput;
  readonly options: RunningOptions;
  readonly source: ChunkSource;
}

/** @throws ApiError @throws ClientGone */
export async function createResponse(
  context: ResponsesContext,
  body: ResponseRequest,
  route: RouteCall,
): Promise<ApiReply> {
  const model = await findModel(context, body.model, route.access);
  try {
    return body.background === true
      ? await runBehind(context, model, body, route)
      : await answerNow(context, model, body, route);
  } catch (error) {
    throw responseError(error);
  }
}

async function answerNow(
  context: ResponsesContext,
  model: TextModel,
  body: ResponseRequest,
  route: RouteCall,
): Promise<ApiReply> {
  const call = startCall(context, model.served.name, route);
  const answer = await open(context, model, body, route, call);
  return body.stream === true ? streamed(answer) : whole(answer);
}

/** Nothing runs yet, but all is checked. */
async function open(
  context: ResponsesContext,
  model: TextModel,
  body: ResponseRequest,
  route: RouteCall,
  call: CallFacts,
): Promise<Answer> {
  const input = resolveInput(context.store, ownerOf(route), body);
  const tools = readResponseTools(body, addedTools(input.items.map(({ item }) => item)));
  const prepare: Prepare = (some) => prepareChat(model, asChat(body, some), tools);
  const given = messagesOf(body.instructions, input.items);
  const isTriggered = input.own.at(-1)?.type === "compaction_trigger";
  const isDue = isTriggered || (await isLonger(model, body, () => prepare(given)));
  const compaction = isDue ? await compacted(model, body, given, call) : undefined;
  const messages =
    compaction === undefined ? given : messagesOf(body.instructions, [...input.items, placed(compaction)]);
  const isCut = body.truncation === "auto";
  const chat = await (isCut ? prepareFitting(model, messages, body.max_output_tokens, prepare) : prepare(messages));
  const source = await openGenerations(chat.generator, isTriggered ? [] : [chat.request], 1, call);
  const options: RunningOptions = {
    facts: { id: `resp_${route.requestId.slice(4)}`, createdAt: nowSeconds(), body },
    parser: chat.openParser(),
    origins: tools.origins,
    reasoning: { isSummary: wantsSummary(body.reasoning ?? {}), isEncoded: wantsEncodedReasoning(body) },
    countTokens: (text) => model.numTokens(text),
    compaction,
  };
  return { context, body, route, input, options, source };
}

/** Whether the conversation has more tokens than the request wants to have. */
async function isLonger(
  model: TextModel,
  { context_management: entries = [] }: ResponseRequest,
  prepare: () => Promise<PreparedChat>,
): Promise<boolean> {
  const thresholds = entries.flatMap(({ compact_threshold: threshold }) => threshold ?? []);
  if (thresholds.length === 0) return false;
  const { request } = await prepare();
  return (await model.encode(request.prompt, request.addSpecialTokens)).length > Math.min(...thresholds);
}

function placed({ item }: Compaction): PlacedItem {
  return { item, path: "input" };
}

async function streamed(answer: Answer): Promise<ApiReply> {
  const { options, source } = answer;
  const first = await source.next(); // an error before the first chunk has a status of its own
  const writer = new ResponseEvents(options, (response) => keep(answer, response.object()));
  return {
    status: 200,
    contentType: "text/event-stream; charset=utf-8",
    headers: ["cache-control", "no-cache"],
    chunks: new TextStream(first, source, writer),
  };
}

async function whole(answer: Answer): Promise<ApiReply> {
  const { options, source } = answer;
  const response = new RunningResponse(options, () => undefined);
  for (let next = await source.next(); next !== undefined; next = await source.next()) response.read(next.chunk);
  response.end();
  const object = response.object();
  keep(answer, object);
  return jsonReply(object);
}

function keep(answer: Answer, object: JsonObject): void {
  if (answer.body.store !== false) store(answer, finalObject(object));
}

function store({ context, body, route, input, options }: Answer, source: ObjectSource): StoredResponse {
  const { id } = options.facts;
  const parts = { id, owner: ownerOf(route), input: input.own, previousId: body.previous_response_id };
  const response = new StoredResponse(parts, source);
  context.store.add(response);
  return response;
}

/** Goes on without its client. */
async function runBehind(
  context: ResponsesContext,
  model: TextModel,
  body: ResponseRequest,
  route: RouteCall,
): Promise<ApiReply> {
  if (body.store === false) {
    throw invalidRequest("store", "invalid_value", "Background mode requires 'store' to be true.");
  }
  route.access?.admit(model.served.name);
  const call = new BackgroundFacts(route);
  const answer = await open(context, model, { ...body, stream: true }, route, call);
  const run = new BackgroundRun(answer.options, answer.source, call);
  const response = await storeRun(answer, run);
  const queued = jsonReply(run.object());
  void run.run(() => context.store.update(response));
  return body.stream === true ? eventsOf(response, route, 0) : queued;
}

async function storeRun(answer: Answer, run: BackgroundRun): Promise<StoredResponse> {
  try {
    return store(answer, run);
  } catch (error) {
    await answer.source.return();
    throw error;
  }
}
