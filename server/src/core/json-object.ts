/** The one test of a parsed JSON value that many readers share. */

export type JsonObject = Readonly<Record<string, unknown>>;

/** Neither null nor an array. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
