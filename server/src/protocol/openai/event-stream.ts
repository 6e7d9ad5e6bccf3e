/**
 * Answers as Server-Sent Events (WHATWG HTML, 9.2) in OpenAI's form: one JSON object an event, `[DONE]` at the end.
 * Written without generators: each token of each user passes here.
 */
import type { ChunkSource, IndexedChunk } from "./open-generations.ts";
import { openAiError, openAiErrorBody } from "./openai-error.ts";

/** Turns chunks into the text of events. */
export interface EventWriter {
  /** "" = nothing to send yet. */
  chunk(chunk: IndexedChunk): string;
  /** Events behind the last chunk, `[DONE]` not included. */
  end(): string;
}

const DONE = "data: [DONE]\n\n";

export function eventOf(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

export class EventStream implements AsyncIterableIterator<Uint8Array, void> {
  readonly #source: ChunkSource;
  readonly #writer: EventWriter;
  readonly #promptParam: string;
  #first: IndexedChunk | undefined;
  #isOver = false;

  /** `first` was read before, so that a refusal has a status of its own. */
  constructor(first: IndexedChunk | undefined, source: ChunkSource, writer: EventWriter, promptParam: string) {
    this.#first = first;
    this.#source = source;
    this.#writer = writer;
    this.#promptParam = promptParam;
  }

  async next(): Promise<IteratorResult<Uint8Array, void>> {
    while (!this.#isOver) {
      const text = await this.#read();
      if (text !== "") return { done: false, value: Buffer.from(text) };
    }
    return { done: true, value: undefined };
  }

  /** The client is gone: the rest is cancelled. */
  async return(): Promise<IteratorResult<Uint8Array, void>> {
    this.#isOver = true;
    await this.#source.return();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #read(): Promise<string> {
    try {
      const chunk = this.#first ?? (await this.#source.next());
      this.#first = undefined;
      if (chunk !== undefined) return this.#writer.chunk(chunk);
      this.#isOver = true;
      return this.#writer.end() + DONE;
    } catch (error) {
      this.#isOver = true;
      await this.#source.return();
      return eventOf(openAiErrorBody(openAiError(error, this.#promptParam)));
    }
  }
}
