/**
 * HTTP calls as the web's `Request`, and its `Response` as a reply of this server. Sources: WHATWG Fetch, 5; RFC 9110, 7.6.1
 * for headers of one connection.
 */
import type { ApiReply } from "../api/route.ts";
import type { HttpCall } from "../http/http-call.ts";
import { type ContentType, emptyReply } from "../http/http-reply.ts";

const EVENTS = "text/event-stream; charset=utf-8";
/** Written by the listener, or of no use behind it. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "content-type",
  "keep-alive",
  "transfer-encoding",
]);

/** Without its body, which was read before. The host of the address is never looked at. */
export function webRequest(call: HttpCall): Request {
  const headers = new Headers();
  for (let i = 0; i + 1 < call.rawHeaders.length; i += 2) {
    const name = call.rawHeaders[i] ?? "";
    if (!name.startsWith(":")) headers.append(name, call.rawHeaders[i + 1] ?? "");
  }
  return new Request(`http://localhost${call.path}`, { method: call.method, headers, signal: call.signal });
}

/** `signal`: the client is gone. */
export async function replyOf(response: Response, signal: AbortSignal): Promise<ApiReply> {
  const headers = [...response.headers].filter(([name]) => !OWN_HEADERS.has(name)).flat();
  const type = response.headers.get("content-type") ?? "";
  if (response.body === null) return { ...emptyReply(response.status, "text/plain"), contentType: undefined, headers };
  if (type.startsWith("text/event-stream")) {
    return { status: response.status, contentType: EVENTS, headers, chunks: chunksOf(response.body, signal) };
  }
  const contentType: ContentType = type.startsWith("text/plain") ? "text/plain" : "application/json";
  return { status: response.status, contentType, headers, body: [Buffer.from(await response.arrayBuffer())] };
}

/** Ends when the client is gone, even while nothing comes. */
async function* chunksOf(body: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
  const reader = body.getReader();
  const cancel = (): void => void reader.cancel().catch(() => undefined);
  signal.addEventListener("abort", cancel, { once: true });
  try {
    if (signal.aborted) cancel();
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    signal.removeEventListener("abort", cancel);
    cancel();
  }
}
