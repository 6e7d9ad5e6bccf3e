/** Reads the responses of one generation as chunks, until their meaning says that it is over. */
import type { InferResponse } from "../core/infer-response.ts";
import { END, type Responses } from "./responses.ts";
import type { TakeChunk, TextChunk, TextGeneration } from "./text-request.ts";

export abstract class ResponseGeneration implements TextGeneration {
  readonly #responses: Responses;
  /** Set by `read` with the last chunk: a stop, or the final response. */
  protected isOver = false;

  constructor(responses: Responses) {
    this.#responses = responses;
  }

  /** Undefined: nothing to show yet. */
  protected abstract read(response: InferResponse): TextChunk | undefined;

  /** The last chunk of a model that ended without a final response. */
  protected abstract end(): TextChunk;

  async next(): Promise<TextChunk | undefined> {
    while (!this.isOver) {
      const response = await this.#responses.next();
      const chunk = response === undefined ? this.end() : this.read(response);
      if (chunk !== undefined) {
        if (this.isOver) await this.#responses.return();
        return chunk;
      }
    }
    return undefined;
  }

  async deliver(take: TakeChunk): Promise<void> {
    if (this.isOver) return;
    await this.#responses.deliver((response) => {
      if (this.isOver) return END;
      const chunk = this.read(response);
      const behind = chunk === undefined ? undefined : take(chunk);
      return this.isOver && behind === undefined ? END : behind;
    });
    if (this.isOver) await this.#responses.return();
    else await take(this.end());
  }

  async return(): Promise<void> {
    this.isOver = true;
    await this.#responses.return();
  }
}
