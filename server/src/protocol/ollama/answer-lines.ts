/** An answer as lines of JSON, and as one object. Source: Ollama's API reference, "Streaming responses", "Durations". */
import type { TextChunk } from "../../text-model/text-request.ts";
import type { StreamWriter } from "../api/text-stream.ts";
import { chatLogProbs } from "../openai/log-probs.ts";
import type { IndexedChunk } from "../openai/open-generations.ts";
import { type AnswerPart, type AnswerParts, isEmpty, joined, NO_PART } from "./answer-parts.ts";
import { ollamaError, ollamaErrorBody } from "./ollama-error.ts";

export interface AnswerForm {
  /** As the request names it. */
  readonly model: string;
  /** `performance.now()` when the request came. */
  readonly startMs: number;
  readonly hasLogProbs: boolean;
  /** Members that hold the part: `message` of chats, `response` of generations. */
  readonly membersOf: (part: AnswerPart) => Readonly<Record<string, unknown>>;
  /** Member `context` for the text of an answer; undefined: the answer has none. */
  readonly contextOf: ((answer: string) => readonly number[]) | undefined;
}

const NS_PER_MS = 1e6;

export class AnswerLines implements StreamWriter {
  readonly #form: AnswerForm;
  readonly #parts: AnswerParts;
  readonly #end: AnswerEnd;

  constructor(form: AnswerForm, parts: AnswerParts) {
    this.#form = form;
    this.#parts = parts;
    this.#end = new AnswerEnd(form);
  }

  chunk({ chunk }: IndexedChunk): string {
    this.#end.see(chunk);
    const part = this.#parts.read(chunk);
    const logProbs = this.#form.hasLogProbs && chunk.scores.length > 0 ? logProbsOf(chunk) : {};
    const isShown = !isEmpty(part) || "logprobs" in logProbs;
    const line = isShown
      ? lineOf({ ...headOf(this.#form), ...this.#form.membersOf(part), done: false, ...logProbs })
      : "";
    return chunk.finish === undefined ? line : line + lineOf(this.#end.object(NO_PART, chunk));
  }

  end(): string {
    return "";
  }

  fail(thrown: unknown): string {
    return lineOf(ollamaErrorBody(ollamaError(thrown)));
  }
}

export class WholeAnswer {
  readonly #form: AnswerForm;
  readonly #parts: AnswerParts;
  readonly #end: AnswerEnd;
  readonly #scores: TextChunk["scores"][number][] = [];
  #part = NO_PART;

  constructor(form: AnswerForm, parts: AnswerParts) {
    this.#form = form;
    this.#parts = parts;
    this.#end = new AnswerEnd(form);
  }

  add(chunk: TextChunk): void {
    this.#end.see(chunk);
    this.#part = joined(this.#part, this.#parts.read(chunk));
    this.#scores.push(...chunk.scores);
  }

  object(last: TextChunk): unknown {
    const logProbs = this.#form.hasLogProbs ? logProbsOf({ scores: this.#scores }) : {};
    return { ...this.#end.object(this.#part, last), ...logProbs };
  }
}

/** Answer to a request without a prompt: clients send it to load a model before they need it. */
export function loadedAnswer(form: AnswerForm, reason: "load" | "unload"): unknown {
  return { ...headOf(form), ...form.membersOf(NO_PART), done: true, done_reason: reason };
}

export function lineOf(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

/** The last object, with counts and times. */
class AnswerEnd {
  readonly #form: AnswerForm;
  #firstMs: number | undefined;
  #text = "";

  constructor(form: AnswerForm) {
    this.#form = form;
  }

  /** Marks the time of the first chunk, and keeps the text for `context`. */
  see({ text }: TextChunk): void {
    this.#firstMs ??= performance.now();
    if (this.#form.contextOf !== undefined) this.#text += text;
  }

  object(part: AnswerPart, { finish, usage }: TextChunk): Readonly<Record<string, unknown>> {
    const { startMs, contextOf } = this.#form;
    const nowMs = performance.now();
    const firstMs = this.#firstMs ?? nowMs;
    return {
      ...headOf(this.#form),
      ...this.#form.membersOf(part),
      done: true,
      done_reason: finish ?? "stop",
      total_duration: nanoseconds(nowMs - startMs),
      load_duration: 0,
      prompt_eval_count: usage.promptTokens ?? 0,
      prompt_eval_duration: nanoseconds(firstMs - startMs),
      eval_count: usage.outputTokens ?? 0,
      eval_duration: nanoseconds(nowMs - firstMs),
      ...(contextOf === undefined ? {} : { context: contextOf(this.#text) }),
    };
  }
}

function headOf({ model }: AnswerForm): Readonly<Record<string, unknown>> {
  return { model, created_at: new Date().toISOString() };
}

function logProbsOf({ scores }: Pick<TextChunk, "scores">): { readonly logprobs: unknown } {
  return { logprobs: chatLogProbs(scores).content };
}

export function nanoseconds(ms: number): number {
  return Math.round(ms * NS_PER_MS);
}
