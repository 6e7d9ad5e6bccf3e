/**
 * Writes replies to Node's response: the head as one flat list, the body in as few writes as possible (RFC 9112, 2.1).
 */
import type { ServerResponse } from "node:http";
import type { HttpReply, HttpStreamReply, PouredChunks } from "../http-reply.ts";
import { ChunkWriter } from "./chunk-writer.ts";
import { ClientGone } from "./read-body.ts";

/** Smaller bodies are joined: a second write costs more than the copy. */
const MAX_JOINED_BYTES = 65_536;
/** The phrase that differs from the standard one. */
const REASON_405 = "Not Allowed";

export function sendReply(response: ServerResponse, reply: HttpReply): void {
  let size = 0;
  for (const part of reply.body) size += part.length;
  const head = ["Content-Length", String(size)];
  if (reply.contentType !== undefined) head.unshift("Content-Type", reply.contentType);
  for (const text of reply.headers) head.push(text);
  writeHead(response, reply.status, head);
  if (reply.release !== undefined) response.once("finish", reply.release);
  const [first] = reply.body;
  if (first === undefined) {
    response.end();
  } else if (reply.body.length === 1) {
    response.end(first);
  } else if (size <= MAX_JOINED_BYTES) {
    response.end(Buffer.concat(reply.body, size));
  } else {
    response.cork();
    for (const part of reply.body) response.write(part);
    response.uncork();
    response.end();
  }
}

/** Sends each chunk in the turn it comes, and asks for the next only when the client has taken enough. */
export async function sendStream(
  response: ServerResponse,
  reply: HttpStreamReply,
  call: { readonly isCancelled: boolean },
): Promise<void> {
  writeHead(response, reply.status, ["Content-Type", reply.contentType, ...(reply.headers ?? [])]);
  const writer = new ChunkWriter(response);
  const { chunks } = reply;
  if ("pour" in chunks) await pour(chunks, writer, call);
  else {
    for await (const chunk of chunks) {
      if (call.isCancelled) break;
      const behind = writer.write(chunk);
      if (behind !== undefined) await behind;
    }
  }
  writer.end();
}

async function pour(chunks: PouredChunks, writer: ChunkWriter, call: { readonly isCancelled: boolean }): Promise<void> {
  try {
    await chunks.pour((chunk) => {
      if (call.isCancelled) throw new ClientGone();
      return writer.write(chunk);
    });
  } catch (error) {
    if (!(error instanceof ClientGone)) throw error;
  }
}

function writeHead(response: ServerResponse, status: number, head: string[]): void {
  if (status === 405) response.writeHead(status, REASON_405, head);
  else response.writeHead(status, head);
}
