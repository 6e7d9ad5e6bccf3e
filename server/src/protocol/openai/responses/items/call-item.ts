/**
 * A call of the answer, to a function or to a custom tool.
 * Source: OpenAI's API reference, streaming events, "response.function_call_arguments.delta", "response.custom_tool_call_input.delta".
 */
import type { JsonObject } from "../../../api/schema.ts";
import { CustomInput } from "../../custom-input.ts";
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

/** Its one argument arrives as JSON and goes out as text. */
export class CustomCallItem implements OutputItem {
  readonly kind = "call";
  readonly #events: ItemEvents;
  readonly #head: JsonObject;
  readonly #reader = new CustomInput();
  #input = "";

  constructor(events: ItemEvents, callId: string, origin: ToolOrigin) {
    this.#events = events;
    this.#head = { id: events.id, type: "custom_tool_call", call_id: callId, ...namesOf(origin) };
    events.added({ ...this.#head, input: "", status: "in_progress" });
  }

  push(delta: string): void {
    this.#add(this.#reader.push(delta));
  }

  close(status: ItemStatus): JsonObject {
    this.#add(this.#reader.end());
    const input = this.#input;
    this.#events.emit("response.custom_tool_call_input.done", { input });
    const item = { ...this.#head, input, status };
    this.#events.done(item);
    return item;
  }

  #add(delta: string): void {
    if (delta === "") return;
    this.#input += delta;
    this.#events.emit("response.custom_tool_call_input.delta", { delta });
  }
}

function namesOf({ name, namespace }: ToolOrigin): JsonObject {
  return namespace === undefined ? { name } : { name, namespace };
}
