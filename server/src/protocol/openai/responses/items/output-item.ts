/** One item of an answer while it grows: a message, reasoning, or a call. Source: OpenAI's API reference, "The response object". */
import type { JsonObject } from "../../../api/schema.ts";
import type { ChatLogProbs } from "../../log-probs.ts";

/** Takes the events of an answer in their order; each gets its number where it is written. */
export type Emit = (type: string, fields: JsonObject) => void;

export type ItemStatus = "completed" | "incomplete";

export type TokenLogProbs = ChatLogProbs["content"];

export interface OutputItem {
  readonly kind: "message" | "reasoning" | "call";
  push(text: string, logProbs: TokenLogProbs): void;
  /** Emits the events that end it, and gives the item as it stays. */
  close(status: ItemStatus): JsonObject;
}

/** Emits events of one item: those that have its place. */
export class ItemEvents {
  readonly id: string;
  readonly #outputIndex: number;
  readonly #emit: Emit;

  constructor(id: string, outputIndex: number, emit: Emit) {
    this.id = id;
    this.#outputIndex = outputIndex;
    this.#emit = emit;
  }

  added(item: JsonObject): void {
    this.#emit("response.output_item.added", { output_index: this.#outputIndex, item });
  }

  done(item: JsonObject): void {
    this.#emit("response.output_item.done", { output_index: this.#outputIndex, item });
  }

  emit(type: string, fields: JsonObject): void {
    this.#emit(type, { item_id: this.id, output_index: this.#outputIndex, ...fields });
  }
}
