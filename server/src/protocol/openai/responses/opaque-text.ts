/**
 * Text that clients keep and send back without reading it: `encrypted_content`. The models of this server are the client's
 * own, so it is encoded, not encrypted. Source: OpenAI's API reference, reasoning and compaction items.
 */

const PREFIX = "nereid1.";

export function encodeText(text: string): string {
  return PREFIX + Buffer.from(text).toString("base64url");
}

/** "" for content of other servers, which nobody here can read. */
export function decodeText(value: unknown): string {
  if (typeof value !== "string" || !value.startsWith(PREFIX)) return "";
  return Buffer.from(value.slice(PREFIX.length), "base64url").toString();
}
