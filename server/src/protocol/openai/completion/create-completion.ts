/** POST /v1/completions. Source: OpenAI's API reference, "Create completion". */
import type { TextModel } from "../../../text-model/text-model.ts";
import type { FinishReason, TextChunk, TokenScore } from "../../../text-model/text-request.ts";
import type { ApiReply, RouteCall } from "../../api/route.ts";
import { jsonReply } from "../../http/http-reply.ts";
import { EventStream } from "../event-stream.ts";
import { expectTogether } from "../generation-fields.ts";
import { completionLogProbs } from "../log-probs.ts";
import { type ChunkSource, type IndexedChunk, openGenerations } from "../open-generations.ts";
import { findModel, nowSeconds, type OpenAiContext, startCall } from "../openai-context.ts";
import { openAiError } from "../openai-error.ts";
import { UsageSum } from "../usage.ts";
import { CompletionEvents } from "./events.ts";
import { type PreparedCompletion, prepareCompletion } from "./prompts.ts";
import type { CompletionRequest } from "./request.ts";

interface Answer {
  readonly model: TextModel;
  readonly body: CompletionRequest;
  readonly prepared: PreparedCompletion;
  readonly id: string;
  readonly created: number;
}

/** @throws ApiError @throws ClientGone */
export async function createCompletion(
  context: OpenAiContext,
  body: CompletionRequest,
  route: RouteCall,
): Promise<ApiReply> {
  expectTogether(body);
  const model = await findModel(context, body.model, route.access);
  const call = startCall(context, model.served.name, route);
  try {
    const prepared = prepareCompletion(model, body);
    const source = await openGenerations(model, prepared.requests, body.n ?? 1, call);
    const first = await source.next(); // an error before the first chunk has a status of its own
    const answer = { model, body, prepared, id: `cmpl-${route.requestId.slice(4)}`, created: nowSeconds() };
    return body.stream === true ? streamed(answer, first, source) : jsonReply(await whole(answer, first, source));
  } catch (error) {
    throw openAiError(error);
  }
}

function streamed(answer: Answer, first: IndexedChunk | undefined, source: ChunkSource): ApiReply {
  const { body, prepared } = answer;
  const writer = new CompletionEvents({
    head: JSON.stringify(headOf(answer)).slice(0, -1),
    numChoices: body.n ?? 1,
    prompts: prepared.prompts,
    isPromptOnly: body.max_tokens === 0,
    includesUsage: body.stream_options?.include_usage === true,
    usageInEach: body.stream_options?.continuous_usage_stats === true,
    hasLogProbs: body.logprobs !== undefined,
  });
  const chunks = new EventStream(first, source, writer, "prompt");
  return {
    status: 200,
    contentType: "text/event-stream; charset=utf-8",
    headers: ["cache-control", "no-cache"],
    chunks,
  };
}

function headOf({ body, model, id, created }: Answer): Readonly<Record<string, unknown>> {
  const { name, version } = model.served;
  return { id, object: "text_completion", created, model: body.model, system_fingerprint: `fp_${name}_${version}` };
}

class Choice {
  readonly #scores: TokenScore[] = [];
  #text: string;
  #finish: FinishReason = "stop";

  constructor(prompt: string) {
    this.#text = prompt;
  }

  add({ text, scores, promptScores, finish }: TextChunk, isPromptOnly: boolean): void {
    this.#scores.push(...(promptScores ?? []));
    if (finish !== undefined) this.#finish = finish;
    if (isPromptOnly) return;
    this.#scores.push(...scores);
    this.#text += text;
  }

  object(index: number, hasLogProbs: boolean): unknown {
    const logprobs = hasLogProbs ? completionLogProbs(this.#scores, 0) : null;
    return { index, text: this.#text, logprobs, finish_reason: this.#finish };
  }
}

async function whole(answer: Answer, first: IndexedChunk | undefined, source: ChunkSource): Promise<unknown> {
  const { body, prepared } = answer;
  const numChoices = body.n ?? 1;
  const isPromptOnly = body.max_tokens === 0;
  const usage = new UsageSum(numChoices);
  const choices = prepared.requests.flatMap((_, prompt) =>
    Array.from({ length: numChoices }, () => new Choice(prepared.prompts[prompt] ?? "")),
  );
  for (let next = first; next !== undefined; next = await source.next()) {
    const { index, chunk } = next;
    choices[index]?.add(chunk, isPromptOnly);
    usage.set(index, isPromptOnly ? { ...chunk.usage, outputTokens: 0 } : chunk.usage);
  }
  const counts = usage.value();
  return {
    ...headOf(answer),
    choices: choices.map((choice, index) => choice.object(index, body.logprobs !== undefined)),
    ...(counts === undefined ? {} : { usage: counts }),
  };
}
