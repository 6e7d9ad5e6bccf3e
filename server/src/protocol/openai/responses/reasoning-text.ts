/**
 * Text of a reasoning item, and its opaque form for clients that keep no text of it. The models of this server are the
 * client's own: `encrypted_content` is encoded, not encrypted. Source: OpenAI's API reference, reasoning items.
 */
import { isObject, type JsonObject } from "../../api/schema.ts";

const PREFIX = "nereid1.";

export function encodeReasoning(text: string): string {
  return PREFIX + Buffer.from(text).toString("base64url");
}

/** "" for content of other servers, which nobody here can read. */
function decodeReasoning(value: unknown): string {
  if (typeof value !== "string" || !value.startsWith(PREFIX)) return "";
  return Buffer.from(value.slice(PREFIX.length), "base64url").toString();
}

/** The text itself where the item has it; summaries come last, since another server's leave things out. */
export function reasoningText({ content, summary, encrypted_content: encoded }: JsonObject): string {
  return textsOf(content) || decodeReasoning(encoded) || textsOf(summary);
}

function textsOf(parts: unknown): string {
  if (!Array.isArray(parts)) return "";
  return parts.flatMap((part) => (isObject(part) && typeof part.text === "string" ? [part.text] : [])).join("\n");
}
