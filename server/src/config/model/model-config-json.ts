/**
 * The JSON of `/config` (Triton's model configuration extension): every primitive with its default, no absent messages,
 * some 64-bit integers as text.
 */

import { jsonWithUint64 } from "../../core/json-object.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { type FieldSpec, messageSpec } from "./schema.ts";

export function modelConfigJson(config: ModelConfig): string {
  return jsonWithUint64(printedMessage("ModelConfig", config as unknown as Message));
}

type Message = Readonly<Record<string, unknown>>;

function printedMessage(name: string, message: Message): Message {
  const printed: Record<string, unknown> = {};
  for (const field of messageSpec(name).values()) {
    const value = message[field.name];
    if (value !== undefined) printed[field.name] = printedField(field, value);
  }
  return printed;
}

function printedField(field: FieldSpec, value: unknown): unknown {
  if (field.shape === "list") return (value as readonly unknown[]).map((element) => printedValue(field, element));
  if (field.shape === "single") return printedValue(field, value);
  const printed = Object.create(null) as Record<string, unknown>;
  for (const [key, element] of Object.entries(value as Message)) printed[key] = printedValue(field, element);
  return printed;
}

function printedValue(field: FieldSpec, value: unknown): unknown {
  if (field.value.kind === "message") return printedMessage(field.value.name, value as Message);
  // JSON has no infinity: ProtoJSON writes the name.
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  return field.isPrintedAsText ? String(value) : value;
}
