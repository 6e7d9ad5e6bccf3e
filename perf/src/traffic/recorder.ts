/**
 * Chooses exchanges, collects their bodies within limits and writes them. Requests never wait for it: what does not fit is dropped
 * and counted.
 */

import { isUtf8 } from "node:buffer";
import { once } from "node:events";
import { createWriteStream, type WriteStream } from "node:fs";
import { seededRandom } from "@nereid/server/backend/fault/seeded-random";
import { decodedBody } from "./content-encoding.ts";
import {
  type Body,
  bodiesPath,
  type ExchangeLine,
  FORMAT,
  FORMAT_VERSION,
  type HeaderList,
  headerOf,
  type RecordingHead,
  type RedactionNames,
} from "./recording.ts";
import { hasBodyRules, type RedactionRules, redactHeaders, redactHttp, rulesOf } from "./redact.ts";
import { GrpcRedactor } from "./redact-grpc.ts";

export interface RecorderOptions {
  readonly path: string;
  readonly server: string;
  /** Share of the requests, 0 to 1. */
  readonly sample: number;
  readonly seed: number;
  readonly maxRequests: number;
  /** Both files together. */
  readonly maxFileBytes: number;
  /** One request or one answer. */
  readonly maxBodyBytes: number;
  /** Bodies under way and waiting to be written. */
  readonly maxQueueBytes: number;
  readonly redaction: RedactionNames;
}

export interface RecorderCounts {
  seen: number;
  sampled: number;
  recorded: number;
  /** By reason. */
  readonly dropped: Record<"too large" | "queue full" | "unfinished" | "limit reached" | "write failed", number>;
}

export interface CallFacts {
  readonly protocol: "http" | "grpc";
  readonly method: string;
  readonly path: string;
  readonly headers: HeaderList;
}

export interface AnswerFacts {
  readonly status: number;
  readonly message?: string;
  readonly headers: HeaderList;
}

/** One exchange that is collected. */
export interface Capture {
  request(part: Buffer): void;
  answer(part: Buffer): void;
  end(answer: AnswerFacts): void;
  /** The client or the server broke it off. */
  abandon(): void;
}

export class Recorder {
  readonly counts: RecorderCounts = {
    seen: 0,
    sampled: 0,
    recorded: 0,
    dropped: { "too large": 0, "queue full": 0, unfinished: 0, "limit reached": 0, "write failed": 0 },
  };
  /** Resolves when the limits of the recording are reached, or its files cannot be written. */
  readonly isFull: Promise<void>;
  readonly #options: RecorderOptions;
  readonly #rules: RedactionRules;
  readonly #grpc: GrpcRedactor;
  readonly #random: () => number;
  readonly #startMs = performance.now();
  readonly #lines: WriteStream;
  readonly #bodies: WriteStream;
  #setFull = (): void => undefined;
  #queueBytes = 0;
  #fileBytes = 0;
  #offset = 0;
  #accepted = 0;
  failure: Error | undefined;

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.#rules = rulesOf(options.redaction);
    this.#grpc = new GrpcRedactor(this.#rules);
    this.#random = seededRandom(options.seed);
    this.isFull = new Promise((resolve) => {
      this.#setFull = resolve;
    });
    // Recordings hold what users sent: nobody else reads them.
    this.#lines = createWriteStream(options.path, { mode: 0o600 });
    this.#bodies = createWriteStream(bodiesPath(options.path), { mode: 0o600 });
    for (const stream of [this.#lines, this.#bodies]) stream.on("error", (error) => this.#fail(error));
    const { server, sample, redaction } = options;
    const date = new Date().toISOString();
    const head: RecordingHead = { format: FORMAT, version: FORMAT_VERSION, server, date, sample, redaction };
    this.#write(this.#lines, Buffer.from(`${JSON.stringify(head)}\n`));
  }

  /** Undefined: this request is not recorded. */
  begin(call: CallFacts): Capture | undefined {
    this.counts.seen += 1;
    if (this.#random() >= this.#options.sample) return undefined;
    this.counts.sampled += 1;
    const { maxRequests, maxFileBytes } = this.#options;
    if (this.failure !== undefined) return this.#drop("write failed");
    if (this.#accepted >= maxRequests || this.#fileBytes >= maxFileBytes) return this.#drop("limit reached");
    this.#accepted += 1;
    return this.#capture(call);
  }

  /** Waits until all is written. */
  async close(): Promise<void> {
    const ends = [this.#lines, this.#bodies].map((stream) =>
      stream.destroyed || stream.closed ? undefined : once(stream.end(), "close"),
    );
    await Promise.all(ends).catch((error: unknown) =>
      this.#fail(error instanceof Error ? error : new Error(String(error))),
    );
  }

  #capture(call: CallFacts): Capture {
    const startMs = performance.now();
    const parts: Record<"request" | "answer", Buffer[]> = { request: [], answer: [] };
    const sizes = { request: 0, answer: 0 };
    let isOpen = true;
    const stop = (): void => {
      isOpen = false;
      this.#queueBytes -= sizes.request + sizes.answer;
    };
    const add = (side: "request" | "answer", part: Buffer): void => {
      if (!isOpen) return;
      const isTooLarge = sizes[side] + part.length > this.#options.maxBodyBytes;
      if (isTooLarge || this.#queueBytes + part.length > this.#options.maxQueueBytes) {
        stop();
        this.#giveUp(isTooLarge ? "too large" : "queue full");
        return;
      }
      parts[side].push(part);
      sizes[side] += part.length;
      this.#queueBytes += part.length;
    };
    return {
      request: (part) => add("request", part),
      answer: (part) => add("answer", part),
      abandon: () => {
        if (!isOpen) return;
        stop();
        this.#giveUp("unfinished");
      },
      end: (answer) => {
        if (!isOpen) return;
        stop();
        const [request, reply] = [Buffer.concat(parts.request), Buffer.concat(parts.answer)];
        this.#record(call, request, answer, reply, startMs);
      },
    };
  }

  #record(call: CallFacts, request: Buffer, answer: AnswerFacts, reply: Buffer, startMs: number): void {
    const ms = performance.now() - startMs;
    const asked = this.#bodyOf(call, call.headers, request, "request");
    const answered = this.#bodyOf(call, answer.headers, reply, "answer");
    const line: ExchangeLine = {
      at_ms: round(startMs - this.#startMs),
      ...call,
      headers: redactHeaders(asked.headers, this.#rules),
      body: asked.body,
      answer: { ...answer, headers: redactHeaders(answered.headers, this.#rules), body: answered.body, ms: round(ms) },
    };
    this.#write(this.#lines, Buffer.from(`${JSON.stringify(line)}\n`));
    this.counts.recorded += 1;
    const { maxRequests, maxFileBytes } = this.#options;
    if (this.counts.recorded >= maxRequests || this.#fileBytes >= maxFileBytes) this.#setFull();
  }

  #bodyOf(
    { protocol, path }: CallFacts,
    headers: HeaderList,
    bytes: Buffer,
    side: "request" | "answer",
  ): { readonly headers: HeaderList; readonly body: readonly Body[] } {
    if (protocol === "grpc") return { headers, body: this.#messagesOf(bytes, path, side) };
    const plain = this.#plain(headers, bytes);
    if (plain === undefined) return { headers, body: [{ omitted: "a compressed body that cannot be read" }] };
    const stated = headerOf(headers, "inference-header-content-length");
    const jsonLength = stated === undefined ? undefined : Number(stated);
    const redacted = redactHttp({ bytes: plain.bytes, jsonLength, isCompressed: false }, this.#rules);
    if ("omitted" in redacted) return { headers, body: [{ omitted: redacted.omitted }] };
    const changed = { "inference-header-content-length": redacted.jsonLength, "content-length": redacted.bytes.length };
    const fitting = plain.headers.map(([name, value]): readonly [string, string] => {
      const length = changed[name.toLowerCase() as keyof typeof changed];
      return [name, length === undefined ? value : String(length)];
    });
    return { headers: fitting, body: redacted.bytes.length === 0 ? [] : [this.#keep(redacted.bytes)] };
  }

  /** Rules are applied to bodies without compression; without rules a body stays as it came. */
  #plain(headers: HeaderList, bytes: Buffer): { readonly headers: HeaderList; readonly bytes: Buffer } | undefined {
    const encoding = headerOf(headers, "content-encoding") ?? "identity";
    if (encoding === "identity" || !hasBodyRules(this.#rules)) return { headers, bytes };
    const decoded = decodedBody(bytes, encoding, this.#options.maxBodyBytes);
    const others = headers.filter(([name]) => name.toLowerCase() !== "content-encoding");
    return decoded === undefined ? undefined : { headers: others, bytes: decoded };
  }

  #messagesOf(bytes: Buffer, path: string, side: "request" | "answer"): readonly Body[] {
    const messages = splitGrpcMessages(bytes);
    if (messages === undefined) return [{ omitted: "compressed or cut messages of gRPC" }];
    return messages.map((message) => {
      const redacted = this.#grpc.redact(message, path, side);
      return redacted === undefined ? { omitted: "redaction rules cannot be applied" } : this.#keep(redacted);
    });
  }

  #keep(bytes: Buffer): Body {
    if (isUtf8(bytes) && !bytes.includes(0)) return { text: bytes.toString() };
    const offset = this.#offset;
    this.#offset += bytes.length;
    this.#write(this.#bodies, bytes);
    return { offset, length: bytes.length };
  }

  #write(stream: WriteStream, bytes: Buffer): void {
    if (this.failure !== undefined) return;
    this.#fileBytes += bytes.length;
    this.#queueBytes += bytes.length;
    stream.write(bytes, () => {
      this.#queueBytes -= bytes.length;
    });
  }

  #drop(reason: keyof RecorderCounts["dropped"]): undefined {
    this.counts.dropped[reason] += 1;
    return undefined;
  }

  /** An accepted exchange leaves its place to another. */
  #giveUp(reason: keyof RecorderCounts["dropped"]): void {
    this.#accepted -= 1;
    this.#drop(reason);
  }

  #fail(error: Error): void {
    this.failure ??= error;
    this.#setFull();
  }
}

/** Length-prefixed messages (gRPC over HTTP/2, "Length-Prefixed-Message"); undefined: compressed or cut. */
export function splitGrpcMessages(bytes: Buffer): readonly Buffer[] | undefined {
  const messages: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    if (at + GRPC_PREFIX_BYTES > bytes.length || bytes[at] !== 0) return undefined;
    const end = at + GRPC_PREFIX_BYTES + bytes.readUInt32BE(at + 1);
    if (end > bytes.length) return undefined;
    messages.push(bytes.subarray(at + GRPC_PREFIX_BYTES, end));
    at = end;
  }
  return messages;
}

const GRPC_PREFIX_BYTES = 5;

function round(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
