/**
 * One connection of HTTP/1.1 (RFC 9112) that sends prebuilt requests, one at a time. Answers with the same head as the one before
 * are not parsed again: this halves the cost of small answers.
 */
import type { Socket } from "node:net";
import { type Address, openSocket } from "./connect.ts";
import { type AnswerSink, FAILURE_BYTES } from "./exchange.ts";

export interface HttpRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

interface AnswerHead {
  readonly isGood: boolean;
  readonly statusLine: string;
  /** Bytes of the body; undefined when it is chunked. */
  readonly length: number | undefined;
  readonly closes: boolean;
}

const HEAD_END = Buffer.from("\r\n\r\n");
const LINE_END = Buffer.from("\r\n");
const MAX_HEAD_BYTES = 65_536;

export function httpRequestBytes({ method, path, headers, body }: HttpRequest, host: string): Buffer {
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${host}`];
  for (const [name, value] of headers) lines.push(`${name}: ${value}`);
  if (method === "POST") lines.push(`Content-Length: ${body.length}`);
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), body]);
}

export class HttpClient {
  readonly #address: Address;
  #socket: Socket | undefined;
  #isOpen = false;
  #pending: Uint8Array | undefined;
  #sink: AnswerSink | undefined;
  #kept: Buffer | undefined;
  #head: AnswerHead | undefined;
  /** Bytes left of the body, or of the current chunk with its line end. */
  #left = 0;
  #failure = "";
  /** Head of the answer before: most answers to a load repeat it. */
  #last: { readonly head: AnswerHead; readonly bytes: Buffer } | undefined;
  #isClosed = false;

  constructor(address: Address) {
    this.#address = address;
  }

  /** The connection opens with the first request, and again after the server has closed it. One exchange at a time. */
  send(request: Uint8Array, sink: AnswerSink): void {
    this.#sink = sink;
    if (this.#socket !== undefined && this.#isOpen) {
      this.#socket.write(request);
      return;
    }
    this.#pending = request;
    if (this.#socket === undefined) this.#open();
  }

  close(): void {
    this.#isClosed = true;
    this.#socket?.destroy();
  }

  #open(): void {
    const socket = openSocket(this.#address, "http/1.1", () => {
      this.#isOpen = true;
      if (this.#pending !== undefined) socket.write(this.#pending);
      this.#pending = undefined;
    });
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => this.#received(chunk));
    socket.on("error", (error) => this.#lost(socket, error.message));
    socket.on("close", () => this.#lost(socket, "the server closed the connection before the answer was whole"));
  }

  #lost(socket: Socket, reason: string): void {
    if (this.#socket !== socket) return;
    this.#socket = undefined;
    this.#isOpen = false;
    this.#kept = undefined;
    this.#head = undefined;
    if (!this.#isClosed) this.#finish(reason);
  }

  #finish(failure: string | undefined): void {
    const sink = this.#sink;
    this.#sink = undefined;
    sink?.end(failure);
  }

  #received(chunk: Buffer): void {
    const bytes = this.#kept === undefined ? chunk : Buffer.concat([this.#kept, chunk]);
    this.#kept = undefined;
    let at = 0;
    while (at < bytes.length) {
      const used = this.#head === undefined ? this.#readHead(bytes, at) : this.#readBody(bytes, at, this.#head);
      if (used === 0) {
        this.#kept = at === 0 ? bytes : bytes.subarray(at);
        return;
      }
      at += used;
    }
  }

  /** @returns bytes used; 0 when the head is not whole */
  #readHead(bytes: Buffer, at: number): number {
    const last = this.#last;
    if (last !== undefined && bytes.length - at >= last.bytes.length) {
      const isSame = last.bytes.compare(bytes, at, at + last.bytes.length) === 0;
      if (isSame) {
        this.#begin(last.head);
        return last.bytes.length;
      }
    }
    const end = bytes.indexOf(HEAD_END, at);
    if (end < 0) {
      if (bytes.length - at > MAX_HEAD_BYTES) this.#socket?.destroy(new Error("the head of an answer is too long"));
      return 0;
    }
    const head = parseHead(bytes.toString("latin1", at, end));
    const size = end + HEAD_END.length - at;
    if (head === undefined) return size; // 1xx: the answer follows
    this.#last = { head, bytes: Buffer.from(bytes.subarray(at, at + size)) };
    this.#begin(head);
    return size;
  }

  #begin(head: AnswerHead): void {
    this.#failure = "";
    this.#head = head;
    this.#left = head.length ?? 0;
    if (head.length === 0) this.#answered(head);
  }

  /** @returns bytes used; 0 when the size of a chunk is not whole */
  #readBody(bytes: Buffer, at: number, head: AnswerHead): number {
    if (this.#left === 0) return this.#readChunkSize(bytes, at, head);
    const used = Math.min(this.#left, bytes.length - at);
    this.#left -= used;
    if (!head.isGood && this.#failure.length < FAILURE_BYTES) this.#failure += bytes.toString("utf8", at, at + used);
    else this.#sink?.part?.(bytes.subarray(at, at + used));
    if (this.#left === 0 && head.length !== undefined) this.#answered(head);
    return used;
  }

  /** RFC 9112, 7.1. The line end behind a chunk is read with the next size. */
  #readChunkSize(bytes: Buffer, at: number, head: AnswerHead): number {
    const from = bytes[at] === LINE_END[0] ? at + LINE_END.length : at;
    const end = bytes.indexOf(LINE_END, from);
    if (end < 0) return 0;
    const size = Number.parseInt(bytes.toString("latin1", from, end), 16);
    if (!(size >= 0)) {
      this.#socket?.destroy(new Error(`expected the size of a chunk, got '${bytes.toString("latin1", from, end)}'`));
      return bytes.length - at;
    }
    if (size > 0) {
      this.#left = size;
      return end + LINE_END.length - at;
    }
    // The last chunk; trailers are not expected, so one empty line ends it.
    const last = end + 2 * LINE_END.length;
    if (bytes.length < last) return 0;
    this.#answered(head);
    return last - at;
  }

  #answered(head: AnswerHead): void {
    this.#head = undefined;
    if (head.closes) {
      this.#socket?.destroy();
      this.#socket = undefined;
      this.#isOpen = false;
    }
    this.#finish(head.isGood ? undefined : `${head.statusLine}: ${this.#failure.slice(0, FAILURE_BYTES)}`);
  }
}

/** Undefined for an interim answer (RFC 9110, 15.2). */
function parseHead(text: string): AnswerHead | undefined {
  const [first = ""] = text.split("\r\n", 1);
  const statusLine = first.replace(/^HTTP\/1\.\d /, "HTTP ");
  const status = Number(statusLine.slice(5, 8));
  if (status >= 100 && status < 200) return undefined;
  const isChunked = /\r\ntransfer-encoding: *chunked/i.test(text);
  const length = /\r\ncontent-length: *(\d+)/i.exec(text)?.[1];
  return {
    isGood: status >= 200 && status < 300,
    statusLine,
    length: isChunked ? undefined : Number(length ?? 0),
    closes: /\r\nconnection: *close/i.test(text),
  };
}
