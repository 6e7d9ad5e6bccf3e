/**
 * Answers as Server-Sent Events (WHATWG HTML, 9.2) in OpenAI's form: one JSON object an event, `[DONE]` at the end.
 */
import { TextStream } from "../api/text-stream.ts";
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

export class EventStream extends TextStream {
  constructor(first: IndexedChunk | undefined, source: ChunkSource, writer: EventWriter, promptParam: string) {
    super(first, source, {
      chunk: (chunk) => writer.chunk(chunk),
      end: () => writer.end() + DONE,
      fail: (thrown) => eventOf(openAiErrorBody(openAiError(thrown, promptParam))),
    });
  }
}
