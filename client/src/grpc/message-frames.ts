/** Length-prefixed messages of gRPC (gRPC over HTTP/2, "Length-Prefixed-Message"): written, and cut out of a stream of bytes. */
import { promisify } from "node:util";
import { deflate, gunzip, gzip, inflate } from "node:zlib";
import { ClientError } from "../client-error.ts";
import type { CompressionAlgorithm } from "../http/compress.ts";
import { joinPieces } from "../http/exchange.ts";

export const PREFIX_BYTES = 5;

const COMPRESS = { gzip: promisify(gzip), deflate: promisify(deflate) } as const;
const DECOMPRESS = { gzip: promisify(gunzip), deflate: promisify(inflate) } as const;

/** `pieces`: a message whose first piece begins with room for the prefix. The pieces stay views. */
export function framePieces(pieces: readonly Uint8Array[]): readonly Uint8Array[] {
  const [first] = pieces;
  if (first === undefined) throw new RangeError("a message has at least its prefix");
  writePrefix(first, 0, pieces.reduce((sum, { length }) => sum + length, 0) - PREFIX_BYTES);
  return pieces;
}

/** A message without room for a prefix. */
export function frameOf(message: Uint8Array): Uint8Array {
  const frame = new Uint8Array(PREFIX_BYTES + message.length);
  frame.set(message, PREFIX_BYTES);
  writePrefix(frame, 0, message.length);
  return frame;
}

/** The same frame with its message compressed. */
export async function compressFrame(
  pieces: readonly Uint8Array[],
  algorithm: CompressionAlgorithm,
): Promise<readonly Uint8Array[]> {
  const compressed = await COMPRESS[algorithm](joinPieces(pieces).subarray(PREFIX_BYTES));
  const prefix = new Uint8Array(PREFIX_BYTES);
  writePrefix(prefix, 1, compressed.length);
  return [prefix, compressed];
}

function writePrefix(frame: Uint8Array, flag: 0 | 1, length: number): void {
  frame[0] = flag;
  new DataView(frame.buffer, frame.byteOffset).setUint32(1, length);
}

export interface ReceivedMessage {
  readonly isCompressed: boolean;
  readonly bytes: Uint8Array;
}

/** @throws ClientError for an encoding that was never asked for, or a message that is too large or broken */
export async function decompressMessage(
  { isCompressed, bytes }: ReceivedMessage,
  encoding: string | undefined,
  maxBytes: number,
): Promise<Uint8Array> {
  if (!isCompressed) return bytes;
  if (encoding !== "gzip" && encoding !== "deflate") {
    throw new ClientError("protocol", `a message is compressed as '${encoding ?? ""}', expected gzip or deflate`);
  }
  try {
    const message = await DECOMPRESS[encoding](bytes, { maxOutputLength: maxBytes });
    return new Uint8Array(message.buffer, message.byteOffset, message.length);
  } catch (error) {
    throw new ClientError("protocol", `a message compressed as ${encoding} cannot be read`, { cause: error });
  }
}

/** Cuts messages out of chunks that end anywhere. */
export class MessageCutter {
  readonly #maxBytes: number;
  #chunks: Uint8Array[] = [];
  #size = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The messages that the next chunk completes. @throws ClientError for one that is too long */
  push(chunk: Uint8Array): ReceivedMessage[] {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    const messages: ReceivedMessage[] = [];
    for (let message = this.#next(); message !== undefined; message = this.#next()) messages.push(message);
    return messages;
  }

  get isWithinMessage(): boolean {
    return this.#size > 0;
  }

  #next(): ReceivedMessage | undefined {
    if (this.#size < PREFIX_BYTES) return undefined;
    if ((this.#chunks[0]?.length ?? 0) < PREFIX_BYTES) this.#join();
    const [first = new Uint8Array(PREFIX_BYTES)] = this.#chunks;
    const length = new DataView(first.buffer, first.byteOffset).getUint32(1);
    if (length > this.#maxBytes) {
      throw new ClientError(
        "protocol",
        `a message has ${length} bytes, more than maxResponseBytes (${this.#maxBytes})`,
      );
    }
    const end = PREFIX_BYTES + length;
    if (this.#size < end) return undefined;
    this.#join();
    const [all = first] = this.#chunks;
    this.#chunks = all.length > end ? [all.subarray(end)] : [];
    this.#size -= end;
    return { isCompressed: all[0] === 1, bytes: all.subarray(PREFIX_BYTES, end) };
  }

  #join(): void {
    if (this.#chunks.length > 1) this.#chunks = [joinPieces(this.#chunks)];
  }
}
