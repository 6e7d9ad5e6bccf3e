/** Adds the default of every field to a written message (proto3 semantics). Knows no rule across fields. */
import type { ModelConfig } from "../../core/model-config.ts";
import { type FieldSpec, messageSpec, type ValueSpec } from "./schema.ts";
import { emptyRecord, type WrittenMessage, type WrittenValue } from "./written-message.ts";

/** The schema guarantees the shape; a test compares it with `ModelConfig`. */
export function completeWritten(written: WrittenMessage): ModelConfig {
  return completeMessage("ModelConfig", written) as unknown as ModelConfig;
}

/** Fields follow the schema order. Absent messages and oneof members stay absent. */
export function completeMessage(name: string, written: WrittenMessage): WrittenMessage {
  const message: Record<string, WrittenValue> = {};
  for (const field of messageSpec(name).values()) {
    const value = completeField(field, written[field.name]);
    if (value !== undefined) message[field.name] = value;
  }
  return message;
}

function completeField(field: FieldSpec, written: WrittenValue | undefined): WrittenValue | undefined {
  if (field.shape === "list") return listOf(written).map((element) => completeValue(field.value, element));
  if (field.shape === "map") return completeMap(field.value, (written ?? {}) as WrittenMessage);
  if (written !== undefined) return completeValue(field.value, written);
  return field.choice === undefined ? defaultOf(field.value) : undefined;
}

function listOf(written: WrittenValue | undefined): readonly WrittenValue[] {
  return Array.isArray(written) ? written : [];
}

function completeMap(spec: ValueSpec, written: WrittenMessage): WrittenMessage {
  const map = emptyRecord<WrittenValue>();
  for (const [key, value] of Object.entries(written)) map[key] = completeValue(spec, value);
  return map;
}

function completeValue(spec: ValueSpec, written: WrittenValue): WrittenValue {
  return spec.kind === "message" ? completeMessage(spec.name, written as WrittenMessage) : written;
}

function defaultOf(spec: ValueSpec): WrittenValue | undefined {
  if (spec.kind === "message") return undefined;
  if (spec.kind === "enum") return spec.values[0];
  if (spec.type === "string") return "";
  return spec.type === "bool" ? false : 0;
}
