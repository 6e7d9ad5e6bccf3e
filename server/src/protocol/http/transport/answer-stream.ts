/** Answers a plain HTTP request that came on an HTTP/2 stream (RFC 9113, 8.1). */
import { type Http2Stream, stopInput } from "../../http2/stream.ts";
import type { HttpReply, HttpStreamReply } from "../http-reply.ts";

export async function answerStream(stream: Http2Stream, reply: HttpReply | HttpStreamReply): Promise<void> {
  if ("chunks" in reply) await sendChunks(stream, reply);
  else sendWhole(stream, reply);
  stream.end();
  stopInput(stream);
}

/** Not faster than the client takes them. */
async function sendChunks(stream: Http2Stream, reply: HttpStreamReply): Promise<void> {
  const type = ["content-type", reply.contentType];
  stream.respond([":status", String(reply.status), ...type, ...lower(reply.headers ?? [])]);
  for await (const chunk of reply.chunks) {
    if (stream.isClosed) break;
    stream.write(chunk);
    stream.send();
    if (stream.needsDrain) await new Promise<void>((resolve) => stream.onDrain(resolve));
  }
}

function sendWhole(stream: Http2Stream, { status, contentType, headers, body, release }: HttpReply): void {
  let size = 0;
  for (const part of body) size += part.length;
  const type = contentType === undefined ? [] : ["content-type", contentType];
  stream.respond([":status", String(status), ...type, "content-length", String(size), ...lower(headers)]);
  const last = body.at(-1);
  for (const part of body) stream.write(part, part === last ? release : undefined);
}

/** Names in HTTP/2 have no capitals. */
function lower(headers: readonly string[]): string[] {
  return headers.map((text, i) => (i % 2 === 0 ? text.toLowerCase() : text));
}
