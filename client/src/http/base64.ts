/** Base64 of bytes (RFC 4648, 4) on platforms without Uint8Array.prototype.toBase64. */

/** Arguments of one call of String.fromCharCode; a multiple of 3, so that parts join without padding. */
const PART_BYTES = 24_576;

export function base64Of(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += PART_BYTES) {
    text += btoa(String.fromCharCode(...bytes.subarray(at, at + PART_BYTES)));
  }
  return text;
}
