/**
 * A call of the answer, to a function or to a custom tool.
 * Source: OpenAI's API reference, streaming events, "response.function_call_arguments.delta", "response.custom_tool_call_input.delta".
 */
import { isObject, type JsonObject } from "../../../api/schema.ts";
import type { ToolOrigin } from "../tools.ts";
import type { ItemEvents, ItemStatus, OutputItem } from "./output-item.ts";

export class FunctionCallItem implements OutputItem {
  readonly kind = "call";
  readonly #events: ItemEvents;
  readonly #head: JsonObject;
  #arguments = "";

  constructor(events: ItemEvents, callId: string, origin: ToolOrigin) {
    this.#events = events;
    this.#head = { id: events.id, type: "function_call", call_id: callId, ...namesOf(origin) };
    events.added({ ...this.#head, arguments: "", status: "in_progress" });
  }

  push(delta: string): void {
    this.#arguments += delta;
    this.#events.emit("response.function_call_arguments.delta", { delta });
  }

  close(status: ItemStatus): JsonObject {
    const { name } = this.#head;
    this.#events.emit("response.function_call_arguments.done", { name, arguments: this.#arguments });
    const item = { ...this.#head, arguments: this.#arguments, status };
    this.#events.done(item);
    return item;
  }
}

/** Its one argument arrives as JSON and goes out as text, once it is whole. */
export class CustomCallItem implements OutputItem {
  readonly kind = "call";
  readonly #events: ItemEvents;
  readonly #head: JsonObject;
  #arguments = "";

  constructor(events: ItemEvents, callId: string, origin: ToolOrigin) {
    this.#events = events;
    this.#head = { id: events.id, type: "custom_tool_call", call_id: callId, ...namesOf(origin) };
    events.added({ ...this.#head, input: "", status: "in_progress" });
  }

  push(delta: string): void {
    this.#arguments += delta;
  }

  close(status: ItemStatus): JsonObject {
    const input = inputOf(this.#arguments);
    this.#events.emit("response.custom_tool_call_input.delta", { delta: input });
    this.#events.emit("response.custom_tool_call_input.done", { input });
    const item = { ...this.#head, input, status };
    this.#events.done(item);
    return item;
  }
}

function namesOf({ name, namespace }: ToolOrigin): JsonObject {
  return namespace === undefined ? { name } : { name, namespace };
}

/** A model without a grammar may write the input alone. */
function inputOf(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) && typeof value.input === "string" ? value.input : text;
  } catch {
    return text;
  }
}
