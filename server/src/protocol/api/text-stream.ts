/**
 * The answer of a generation as a stream of text, in the form that a protocol's writer gives it. Written without
 * generators: each token of each user passes here. Source: own design.
 */
import type { PouredChunks } from "../http/http-reply.ts";
import type { ChunkSource, IndexedChunk } from "../openai/open-generations.ts";

/** Turns chunks into the text of a protocol. */
export interface StreamWriter {
  /** "" = nothing to send yet. */
  chunk(chunk: IndexedChunk): string;
  /** Text behind the last chunk. */
  end(): string;
  /** The end of a stream that fails. */
  fail(thrown: unknown): string;
}

export class TextStream implements AsyncIterableIterator<Uint8Array, void>, PouredChunks {
  readonly #source: ChunkSource;
  readonly #writer: StreamWriter;
  #first: IndexedChunk | undefined;
  #isOver = false;

  /** `first` was read before, so that a refusal has a status of its own. */
  constructor(first: IndexedChunk | undefined, source: ChunkSource, writer: StreamWriter) {
    this.#first = first;
    this.#source = source;
    this.#writer = writer;
  }

  async next(): Promise<IteratorResult<Uint8Array, void>> {
    while (!this.#isOver) {
      const text = await this.#read();
      if (text !== "") return { done: false, value: Buffer.from(text) };
    }
    return { done: true, value: undefined };
  }

  async pour(write: (piece: Uint8Array) => Promise<void> | undefined): Promise<void> {
    let thrown: unknown;
    const send = (text: string): Promise<void> | undefined => {
      try {
        return text === "" ? undefined : write(Buffer.from(text));
      } catch (error) {
        thrown = error; // the client is gone
        throw error;
      }
    };
    try {
      const first = this.#first;
      this.#first = undefined;
      if (first !== undefined) await send(this.#writer.chunk(first));
      await this.#source.deliver((chunk) => send(this.#writer.chunk(chunk)));
      await send(this.#writer.end());
    } catch (error) {
      await this.#source.return();
      if (thrown !== undefined) throw thrown;
      await send(this.#writer.fail(error));
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
      return this.#writer.end();
    } catch (error) {
      this.#isOver = true;
      await this.#source.return();
      return this.#writer.fail(error);
    }
  }
}
