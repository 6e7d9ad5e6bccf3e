/** Events of a response as Server-Sent Events (WHATWG HTML, 9.2). Source: OpenAI's API reference, "Streaming events". */
import type { JsonObject } from "../../api/schema.ts";
import type { StreamWriter } from "../../api/text-stream.ts";
import type { IndexedChunk } from "../open-generations.ts";
import type { Emit } from "./items/output-item.ts";
import { type RunningOptions, RunningResponse } from "./running-response.ts";

/** Numbers events and writes them. */
export class EventNumbers {
  #next = 0;

  text(type: string, fields: JsonObject): string {
    const data = JSON.stringify({ type, sequence_number: this.#next, ...fields });
    this.#next += 1;
    return `event: ${type}\ndata: ${data}\n\n`;
  }
}

export class ResponseEvents implements StreamWriter {
  readonly #numbers = new EventNumbers();
  readonly #response: RunningResponse;
  readonly #onEnd: (response: RunningResponse) => void;
  #text = "";
  #hasBegun = false;

  /** `onEnd`: the last event is written. */
  constructor(options: RunningOptions, onEnd: (response: RunningResponse) => void) {
    const emit: Emit = (type, fields) => {
      this.#text += this.#numbers.text(type, fields);
    };
    this.#response = new RunningResponse(options, emit);
    this.#onEnd = onEnd;
  }

  chunk({ chunk }: IndexedChunk): string {
    this.#begin();
    this.#response.read(chunk);
    return this.#take();
  }

  end(): string {
    this.#begin();
    this.#response.end();
    this.#onEnd(this.#response);
    return this.#take();
  }

  fail(thrown: unknown): string {
    this.#begin();
    this.#response.fail(thrown);
    this.#onEnd(this.#response);
    return this.#take();
  }

  #begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    this.#response.begin();
  }

  #take(): string {
    const text = this.#text;
    this.#text = "";
    return text;
  }
}
