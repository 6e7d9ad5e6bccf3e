/** The JSON body of a call (RFC 8259), bounded in size and depth. */
import { MAX_JSON_DEPTH } from "../../core/limits.ts";
import type { HttpCall } from "../http/http-call.ts";
import { ApiError, invalidRequest } from "./api-error.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** @throws ApiError @throws ClientGone */
export async function readJsonBody(call: HttpCall, maxBytes: number): Promise<unknown> {
  const encoding = call.header("content-encoding") ?? "identity";
  if (encoding !== "" && encoding !== "identity") {
    throw invalidRequest(
      null,
      "unsupported_encoding",
      `Unsupported content-encoding '${encoding}', expected identity.`,
    );
  }
  const bytes = await readBytes(call, maxBytes);
  expectDepth(bytes);
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    throw invalidRequest(
      null,
      null,
      "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The API expects a JSON payload, but what was sent was not valid JSON.)",
    );
  }
}

/** @throws ApiError 413 @throws ClientGone */
export async function readBytes(call: HttpCall, maxBytes: number): Promise<Buffer> {
  const { bytes, size } = await call.body(maxBytes);
  if (size <= maxBytes) return bytes;
  const message = `The request body has ${size} bytes, expected at most ${maxBytes}. Use --http-max-input-size to increase the limit.`;
  throw new ApiError({ status: 413, type: "invalid_request_error", code: "request_too_large", param: null, message });
}

/** Deeper documents would overflow what walks them. */
function expectDepth(bytes: Uint8Array): void {
  let depth = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (byte === QUOTE) i = endOfString(bytes, i);
    else if (byte === 0x5b || byte === 0x7b) depth += 1;
    else if (byte === 0x5d || byte === 0x7d) depth -= 1;
    if (depth > MAX_JSON_DEPTH) {
      throw invalidRequest(null, "json_too_deep", `The JSON body is nested more than ${MAX_JSON_DEPTH} levels deep.`);
    }
  }
}

/** Index of the closing quote, or of the end. */
function endOfString(bytes: Uint8Array, start: number): number {
  let at = bytes.indexOf(QUOTE, start + 1);
  while (at >= 0 && isEscaped(bytes, at)) at = bytes.indexOf(QUOTE, at + 1);
  return at < 0 ? bytes.length : at;
}

function isEscaped(bytes: Uint8Array, at: number): boolean {
  let count = 0;
  while (bytes[at - 1 - count] === BACKSLASH) count += 1;
  return count % 2 === 1;
}
