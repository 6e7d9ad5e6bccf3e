/** Collects a request body (RFC 9112, 6) under a limit, without doubling copies. Knows nothing of its content. */
import type { IncomingMessage } from "node:http";
import { MAX_HTTP_CHUNKS } from "../../../core/limits.ts";
import { invalidArgument } from "../../../core/server-error.ts";
import { Turns } from "../../../observe/turns.ts";
import { discardBytes } from "../../discard-bytes.ts";
import { PieceList } from "../../piece-list.ts";
import type { HttpBody, HttpCall, Reserve } from "../http-call.ts";
import { bufferOf, copyInto } from "./buffer-pool.ts";

const EMPTY: Buffer = Buffer.alloc(0);
/** From here on the announced length is reserved at once instead of holding every chunk until the end. */
const MIN_RESERVED_BYTES = 262_144;
/** Joining more would hold the event loop for too long. */
const MAX_JOINED_AT_ONCE_BYTES = 8 * 1024 * 1024;
/** Chunks below this count towards the limit of chunks; larger ones are bounded by the limit of bytes. */
const SMALL_CHUNK_BYTES = 1024;

/** The client disconnected before its answer. */
export class ClientGone extends Error {
  constructor() {
    super("The client closed the connection before its request was answered");
    this.name = "ClientGone";
  }
}

/** Reads to the end; keeps nothing once `maxBytes` are passed, but goes on counting, for the message. */
export function readBody(
  request: IncomingMessage,
  maxBytes: number,
  holder: Pick<HttpCall, "hold">,
  reserve?: Reserve,
): Promise<HttpBody> {
  return new Promise((resolve, reject) => {
    const collector = new BodyCollector(maxBytes, Number(request.headers["content-length"] ?? 0), reserve);
    request.on("data", (chunk: Buffer) => {
      try {
        collector.add(chunk, holder);
        if (collector.hasCopied) discardBytes(chunk);
      } catch (error) {
        request.removeAllListeners("data");
        request.resume();
        reject(error);
      }
    });
    request.on("end", () => resolve(collector.finishInTurns()));
    request.on("error", () => reject(new ClientGone()));
    request.on("close", () => {
      if (!request.complete) reject(new ClientGone());
    });
  });
}

/** A reader that stops early leaves the rest unread: its answer still needs the connection. @throws ClientGone */
export async function* streamBody(request: IncomingMessage): AsyncGenerator<Uint8Array, void> {
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) yield chunk;
  } catch {
    throw new ClientGone(); // a reader's own failure does not come here
  } finally {
    request.resume();
  }
}

export class BodyCollector {
  readonly #maxBytes: number;
  readonly #pieces = new PieceList();
  #reserved: Buffer | undefined;
  #size = 0;
  #numSmallChunks = 0;

  constructor(maxBytes: number, announcedBytes: number, reserve?: Reserve) {
    this.#maxBytes = maxBytes;
    if (announcedBytes >= MIN_RESERVED_BYTES && announcedBytes <= maxBytes) {
      this.#reserved = bufferOf(reserve?.(announcedBytes) ?? Buffer.allocUnsafeSlow(announcedBytes));
    }
  }

  /** Bytes that are kept beside a buffer of the announced length. */
  get numKeptBytes(): number {
    return this.#pieces.numBytes;
  }

  /** Whether nothing points to the chunks that were added. */
  get hasCopied(): boolean {
    return this.#reserved !== undefined;
  }

  /** @throws ServerError when there were too many chunks, or the server holds too much */
  add(chunk: Buffer, holder: Pick<HttpCall, "hold">): void {
    const start = this.#size;
    this.#size += chunk.length;
    if (chunk.length < SMALL_CHUNK_BYTES && ++this.#numSmallChunks > MAX_HTTP_CHUNKS) {
      throw invalidArgument(
        `Chunked request body exceeds maximum of ${MAX_HTTP_CHUNKS} non-empty chunks. Send fewer or larger HTTP chunks.`,
      );
    }
    if (this.#size <= this.#maxBytes) holder.hold(chunk.length);
    if (this.#size > this.#maxBytes) {
      this.#pieces.clear();
      this.#reserved = undefined;
    } else if (this.#reserved === undefined) {
      this.#pieces.push(chunk);
    } else {
      copyInto(this.#reserved, start, chunk);
    }
  }

  /** As `finish()`; a large body of unknown length is joined over several turns of the event loop. */
  finishInTurns(): HttpBody | Promise<HttpBody> {
    const { pieces } = this.#pieces;
    return this.#size > MAX_JOINED_AT_ONCE_BYTES && pieces.length > 1 ? this.#join(pieces) : this.finish();
  }

  async #join(pieces: readonly Uint8Array[]): Promise<HttpBody> {
    const turns = new Turns();
    const bytes = Buffer.allocUnsafeSlow(this.#size);
    let at = 0;
    for (const piece of pieces) {
      bytes.set(piece, at);
      at += piece.length;
      if (turns.isOver) await turns.next();
    }
    return { bytes, size: this.#size };
  }

  finish(): HttpBody {
    const size = this.#size;
    if (size > this.#maxBytes) return { bytes: EMPTY, size };
    if (this.#reserved !== undefined) return { bytes: this.#reserved.subarray(0, size), size };
    const { pieces } = this.#pieces;
    const [only] = pieces;
    if (only === undefined) return { bytes: EMPTY, size };
    return { bytes: pieces.length === 1 ? bufferOf(only) : Buffer.concat(pieces, size), size };
  }
}
