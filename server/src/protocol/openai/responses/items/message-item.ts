/** A message of the answer. Source: OpenAI's API reference, streaming events, "response.output_text.delta" and neighbours. */
import type { JsonObject } from "../../../api/schema.ts";
import type { ItemEvents, ItemStatus, OutputItem, TokenLogProbs } from "./output-item.ts";

const PLACE: JsonObject = { content_index: 0 };

export class MessageItem implements OutputItem {
  readonly kind = "message";
  readonly #events: ItemEvents;
  readonly #logProbs: TokenLogProbs[number][] = [];
  #text = "";

  constructor(events: ItemEvents) {
    this.#events = events;
    events.added(this.#item("in_progress", []));
    events.emit("response.content_part.added", { ...PLACE, part: this.#part() });
  }

  push(delta: string, logprobs: TokenLogProbs): void {
    this.#text += delta;
    for (const each of logprobs) this.#logProbs.push(each);
    this.#events.emit("response.output_text.delta", { ...PLACE, delta, logprobs });
  }

  close(status: ItemStatus): JsonObject {
    const part = this.#part();
    this.#events.emit("response.output_text.done", { ...PLACE, text: this.#text, logprobs: this.#logProbs });
    this.#events.emit("response.content_part.done", { ...PLACE, part });
    const item = this.#item(status, [part]);
    this.#events.done(item);
    return item;
  }

  #part(): JsonObject {
    return { type: "output_text", text: this.#text, annotations: [], logprobs: [...this.#logProbs] };
  }

  #item(status: string, content: readonly JsonObject[]): JsonObject {
    return { id: this.#events.id, type: "message", status, role: "assistant", content };
  }
}
