/** A response object that no longer changes, as text: its size is known, and reading it changes nothing. Source: own design. */
import { isObject, type JsonObject } from "../../../api/schema.ts";

export interface FinalObject {
  readonly text: string;
  /** Size of the text in UTF-8. */
  readonly numBytes: number;
  /** Ids of its output items. */
  readonly itemIds: readonly string[];
}

export function finalObject(object: JsonObject): FinalObject {
  const text = JSON.stringify(object);
  return { text, numBytes: Buffer.byteLength(text), itemIds: idsOf(itemsOf(object.output)) };
}

export function itemsOf(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function idsOf(items: readonly JsonObject[]): readonly string[] {
  return items.flatMap(({ id }) => (typeof id === "string" ? [id] : []));
}
