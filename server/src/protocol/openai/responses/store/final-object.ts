/** A response object that no longer changes, as text: its length is known, and reading it changes nothing. Source: own design. */
import { isObject, type JsonObject } from "../../../api/schema.ts";

export interface FinalObject {
  readonly text: string;
  /** Ids of its output items. */
  readonly itemIds: readonly string[];
}

export function finalObject(object: JsonObject): FinalObject {
  return { text: JSON.stringify(object), itemIds: idsOf(itemsOf(object.output)) };
}

export function itemsOf(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function idsOf(items: readonly JsonObject[]): readonly string[] {
  return items.flatMap(({ id }) => (typeof id === "string" ? [id] : []));
}
