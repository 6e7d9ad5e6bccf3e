/** Reads the JSON object (RFC 8259) in the body of routes without tensors. */
import type { JsonObject } from "@nereid/wire";
import { invalidArgument } from "../../../core/server-error.ts";
import type { HttpCall } from "../http-call.ts";
import { parseDocument } from "./json-access.ts";

/** The body as an object; an empty one counts as `{}` where the route allows it. @throws ServerError */
export async function readObject(call: HttpCall, maxBytes: number, mayBeEmpty: boolean): Promise<JsonObject> {
  const { bytes, size } = await call.body(maxBytes);
  if (size > maxBytes) {
    throw invalidArgument(
      `request JSON size of ${size} bytes exceeds the maximum allowed input size of ${maxBytes} bytes. Use --http-max-input-size to increase the limit.`,
    );
  }
  if (mayBeEmpty && size === 0) return new Map();
  const value = parseDocument(bytes);
  return value instanceof Map ? value : new Map();
}
