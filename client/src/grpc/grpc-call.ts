/**
 * One gRPC call: messages both ways, its status from the trailers, and its end by a signal. Knows no message type.
 * Source: gRPC over HTTP/2, "Responses" (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
 */
import type { ClientHttp2Stream, IncomingHttpHeaders } from "node:http2";
import { constants } from "node:http2";
import { ClientError } from "../client-error.ts";
import { decompressMessage, MessageCutter, type ReceivedMessage } from "./message-frames.ts";

const { NGHTTP2_CANCEL, NGHTTP2_NO_ERROR, NGHTTP2_REFUSED_STREAM } = constants;

const HTTP_OK = 200;

export class GrpcCall {
  readonly #stream: ClientHttp2Stream;
  readonly #maxBytes: number;
  readonly #cutter: MessageCutter;
  #head: IncomingHttpHeaders = {};
  #trailers: IncomingHttpHeaders = {};

  constructor(stream: ClientHttp2Stream, maxBytes: number, signal: AbortSignal | undefined) {
    this.#stream = stream;
    this.#maxBytes = maxBytes;
    this.#cutter = new MessageCutter(maxBytes);
    stream.on("response", (headers) => {
      this.#head = headers;
    });
    stream.on("trailers", (headers) => {
      this.#trailers = headers;
    });
    // Readers get the error; one that nobody reads yet must not end the program.
    stream.on("error", () => undefined);
    const cancel = (): void => this.cancel();
    if (signal?.aborted === true) cancel();
    signal?.addEventListener("abort", cancel, { once: true });
    stream.once("close", () => signal?.removeEventListener("abort", cancel));
  }

  /** A framed message. Resolves when more may follow. */
  async send(pieces: readonly Uint8Array[]): Promise<void> {
    let hasRoom = true;
    for (const piece of pieces) hasRoom = this.#stream.write(piece);
    if (hasRoom || this.#stream.destroyed) return;
    await new Promise<void>((resolve) => {
      this.#stream.once("drain", resolve);
      this.#stream.once("close", resolve);
    });
  }

  /** A framed message, and no further one. */
  sendLast(pieces: readonly Uint8Array[]): void {
    pieces.forEach((piece, index) => {
      if (index === pieces.length - 1) this.#stream.end(piece);
      else this.#stream.write(piece);
    });
  }

  /** No further message follows. */
  endSending(): void {
    this.#stream.end();
  }

  /** RST_STREAM with CANCEL (gRPC over HTTP/2, "Errors"). */
  cancel(): void {
    this.#stream.close(NGHTTP2_CANCEL);
  }

  /** The only message of a unary call. @throws ClientError, or the error of the connection */
  async message(): Promise<Uint8Array> {
    const received = await this.#collect();
    this.#expectOk();
    const [first, ...others] = received;
    if (first === undefined || others.length > 0) {
      throw new ClientError("protocol", `expected one message, got ${received.length}`);
    }
    return first.isCompressed ? await this.#decompress(first) : first.bytes;
  }

  /** The messages of a stream as they come. @throws ClientError, or the error of the connection */
  async *messages(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for await (const chunk of this.#stream) {
        for (const message of this.#cutter.push(plainBytes(chunk))) yield await this.#decompress(message);
      }
      this.#expectOk();
    } catch (error) {
      throw this.#failure(error);
    } finally {
      if (!this.#stream.closed) this.cancel();
    }
  }

  /** A stream that the server refused was never seen by its application (RFC 9113, 8.7). */
  #failure(error: unknown): unknown {
    if (error instanceof ClientError || this.#stream.rstCode !== NGHTTP2_REFUSED_STREAM) return error;
    return new ClientError("network", "the server refused the stream", { isUnsent: true, cause: error });
  }

  #decompress(message: ReceivedMessage): Promise<Uint8Array> {
    const encoding = this.#head["grpc-encoding"];
    return decompressMessage(message, typeof encoding === "string" ? encoding : undefined, this.#maxBytes);
  }

  /** Without an iterator: unary calls are many. */
  #collect(): Promise<ReceivedMessage[]> {
    const stream = this.#stream;
    return new Promise((resolve, reject) => {
      const received: ReceivedMessage[] = [];
      stream.on("data", (chunk: Buffer) => {
        try {
          received.push(...this.#cutter.push(plainBytes(chunk)));
        } catch (error) {
          this.cancel();
          reject(error);
        }
      });
      stream.once("error", (error) => reject(this.#failure(error)));
      stream.once("close", () => resolve(received));
    });
  }

  /** Statuses of HTTP come from proxies (gRPC, "HTTP to gRPC Status Code Mapping"). @throws ClientError */
  #expectOk(): void {
    const { rstCode } = this.#stream;
    const code = this.#trailers["grpc-status"] ?? this.#head["grpc-status"];
    if (code === "0" && !this.#cutter.isWithinMessage) return;
    if (code === "0") throw new ClientError("protocol", "the call ended within a message");
    if (code !== undefined) {
      const text = this.#trailers["grpc-message"] ?? this.#head["grpc-message"] ?? "";
      throw new ClientError("server", decodeMessage(String(text)) || `gRPC status ${code}`, {
        grpcStatus: Number(code),
      });
    }
    const status = Number(this.#head[":status"] ?? HTTP_OK);
    if (status !== HTTP_OK) throw new ClientError("server", `HTTP ${status}`, { status });
    const reason = rstCode === NGHTTP2_NO_ERROR ? "" : `, with the code ${rstCode} of HTTP/2`;
    throw new ClientError("network", `the call ended without a status${reason}`);
  }
}

function plainBytes({ buffer, byteOffset, length }: Buffer): Uint8Array {
  return new Uint8Array(buffer, byteOffset, length);
}

/** Percent escapes of UTF-8 (gRPC over HTTP/2, "Status-Message"); a broken text stays as it came. */
function decodeMessage(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
