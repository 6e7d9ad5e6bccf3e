/**
 * Reasoning of the answer, as its own text or, for clients that ask for a summary, in the place of the summary: there is
 * no second model that would shorten it. Source: OpenAI's API reference, streaming events, "response.reasoning_text.delta",
 * "response.reasoning_summary_text.delta" and neighbours.
 */
import type { JsonObject } from "../../../api/schema.ts";
import { encodeText } from "../opaque-text.ts";
import type { ItemEvents, ItemStatus, OutputItem } from "./output-item.ts";

export interface ReasoningDisplay {
  readonly isSummary: boolean;
  /** `encrypted_content` was asked for. */
  readonly isEncoded: boolean;
}

/** Names of one way to show it. */
interface Form {
  readonly place: JsonObject;
  readonly partType: string;
  readonly part: string;
  readonly text: string;
}

const TEXT: Form = {
  place: { content_index: 0 },
  partType: "reasoning_text",
  part: "response.content_part",
  text: "response.reasoning_text",
};

const SUMMARY: Form = {
  place: { summary_index: 0 },
  partType: "summary_text",
  part: "response.reasoning_summary_part",
  text: "response.reasoning_summary_text",
};

export class ReasoningItem implements OutputItem {
  readonly kind = "reasoning";
  readonly #events: ItemEvents;
  readonly #display: ReasoningDisplay;
  readonly #form: Form;
  #text = "";

  constructor(events: ItemEvents, display: ReasoningDisplay) {
    this.#events = events;
    this.#display = display;
    this.#form = display.isSummary ? SUMMARY : TEXT;
    events.added(this.#item("in_progress", []));
    events.emit(`${this.#form.part}.added`, { ...this.#form.place, part: this.#part() });
  }

  push(delta: string): void {
    this.#text += delta;
    this.#events.emit(`${this.#form.text}.delta`, { ...this.#form.place, delta });
  }

  close(status: ItemStatus): JsonObject {
    const { place, part, text } = this.#form;
    this.#events.emit(`${text}.done`, { ...place, text: this.#text });
    this.#events.emit(`${part}.done`, { ...place, part: this.#part() });
    const item = this.#item(status, [this.#part()]);
    this.#events.done(item);
    return item;
  }

  #part(): JsonObject {
    return { type: this.#form.partType, text: this.#text };
  }

  #item(status: string, parts: readonly JsonObject[]): JsonObject {
    const { isSummary, isEncoded } = this.#display;
    return {
      id: this.#events.id,
      type: "reasoning",
      summary: isSummary ? parts : [],
      ...(isSummary ? {} : { content: parts }),
      ...(isEncoded ? { encrypted_content: encodeText(this.#text) } : {}),
      status,
    };
  }
}
