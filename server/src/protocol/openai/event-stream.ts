/**
 * Answers as Server-Sent Events (WHATWG HTML, 9.2) in OpenAI's form: one JSON object an event, `[DONE]` at the end.
 * Written without generators: each token of each user passes here.
 */
import type { PouredChunks } from "../http/http-reply.ts";
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

export class EventStream implements AsyncIterableIterator<Uint8Array, void>, PouredChunks {
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

  async pour(write: (piece: Uint8Array) => Promise<void> | undefined): Promise<void> {
    const send = (text: string): Promise<void> | undefined => (text === "" ? undefined : write(Buffer.from(text)));
    let thrown: unknown;
    try {
      const first = this.#first;
      this.#first = undefined;
      if (first !== undefined) await send(this.#writer.chunk(first));
      await this.#source.deliver((chunk) => {
        const text = this.#writer.chunk(chunk);
        try {
          return send(text);
        } catch (error) {
          thrown = error; // the client is gone
          throw error;
        }
      });
      await send(this.#writer.end() + DONE);
    } catch (error) {
      await this.#source.return();
      if (thrown !== undefined) throw thrown;
      await send(this.#failure(error));
    }
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
      return this.#failure(error);
    }
  }

  #failure(error: unknown): string {
    return eventOf(openAiErrorBody(openAiError(error, this.#promptParam)));
  }
}
