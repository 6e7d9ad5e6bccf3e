/** Text of a reasoning item, in any of its forms. Source: OpenAI's API reference, reasoning items. */
import { isObject, type JsonObject } from "../../api/schema.ts";
import { decodeText } from "./opaque-text.ts";

/** The text itself where the item has it; summaries come last, since another server's leave things out. */
export function reasoningText({ content, summary, encrypted_content: encoded }: JsonObject): string {
  return textsOf(content) || decodeText(encoded) || textsOf(summary);
}

function textsOf(parts: unknown): string {
  if (!Array.isArray(parts)) return "";
  return parts.flatMap((part) => (isObject(part) && typeof part.text === "string" ? [part.text] : [])).join("\n");
}
