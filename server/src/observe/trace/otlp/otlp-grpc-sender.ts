/** OTLP over gRPC, one unary call an export. Sources: OTLP specification, "OTLP/gRPC"; gRPC over HTTP/2. */
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http2";
import { GatherWriter } from "@nereid/wire";
import { type OtlpExport, type RpcStatus, readPartialSuccess, readRpcStatus, writeExport } from "./otlp-message.ts";
import { codeOfHttpStatus, grpcFailure, type OtlpOutcome } from "./otlp-outcome.ts";
import {
  compressed,
  MAX_ANSWER_BYTES,
  type OtlpSender,
  readTlsFiles,
  type TlsFiles,
  USER_AGENT,
  unreachable,
} from "./otlp-sender.ts";
import type { OtlpSettings } from "./otlp-settings.ts";

const PATH = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/** Compressed flag and length. */
const PREFIX_BYTES = 5;
/** RFC 9113, 7. */
const CANCEL = 8;

interface Answer {
  readonly head: IncomingHttpHeaders;
  /** Undefined where the head is also the end. */
  readonly trailers: IncomingHttpHeaders | undefined;
  readonly body: Buffer;
}

export class OtlpGrpcSender implements OtlpSender {
  readonly #settings: OtlpSettings;
  readonly #tls: TlsFiles;
  readonly #writer = new GatherWriter();
  #session: ClientHttp2Session | undefined;

  /** @throws ServerError for an unreadable certificate */
  constructor(settings: OtlpSettings) {
    this.#settings = settings;
    this.#tls = readTlsFiles(settings.tlsFiles);
  }

  async send(batch: OtlpExport, signal: AbortSignal): Promise<OtlpOutcome> {
    writeExport(this.#writer, batch);
    const message = await compressed(Buffer.concat(this.#writer.finish()), this.#settings.compression);
    const prefix = Buffer.alloc(PREFIX_BYTES);
    prefix.writeUInt8(this.#settings.compression === "gzip" ? 1 : 0, 0);
    prefix.writeUInt32BE(message.length, 1);
    try {
      const session = await this.#connection();
      return outcomeOf(await call(session, this.#head(), Buffer.concat([prefix, message]), signal));
    } catch (error) {
      return unreachable(error);
    }
  }

  close(): void {
    this.#session?.destroy();
  }

  #head(): OutgoingHttpHeaders {
    const { headers, compression, timeoutMs } = this.#settings;
    return {
      ":method": "POST",
      ":path": PATH,
      "user-agent": USER_AGENT,
      ...Object.fromEntries(headers),
      "content-type": "application/grpc",
      te: "trailers",
      "grpc-timeout": `${timeoutMs}m`,
      ...(compression === "gzip" ? { "grpc-encoding": "gzip" } : {}),
    };
  }

  /**
   * The open one, or a new one; a collector that says GOAWAY gets a new one with the next export. Node's HTTP/2 is loaded for it: a
   * server that exports nothing starts without.
   */
  async #connection(): Promise<ClientHttp2Session> {
    const { connect } = await import("node:http2");
    const current = this.#session;
    if (current !== undefined && !current.closed && !current.destroyed) return current;
    const session = connect(new URL(this.#settings.url).origin, this.#tls);
    const forget = (): void => {
      if (this.#session === session) this.#session = undefined;
    };
    session.on("error", forget).on("goaway", forget).on("close", forget);
    session.unref();
    this.#session = session;
    return session;
  }
}

/** Rejects where the connection or the stream fails before its end. */
function call(
  session: ClientHttp2Session,
  head: OutgoingHttpHeaders,
  body: Buffer,
  signal: AbortSignal,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    session.once("error", reject);
    const stream: ClientHttp2Stream = session.request(head, { signal });
    const chunks: Buffer[] = [];
    let numBytes = 0;
    let [first, trailers]: (IncomingHttpHeaders | undefined)[] = [];
    stream.on("response", (headers) => (first = headers));
    stream.on("trailers", (headers) => (trailers = headers));
    stream.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      numBytes += chunk.length;
      if (numBytes > MAX_ANSWER_BYTES) stream.close(CANCEL);
    });
    stream.on("error", reject);
    stream.once("close", () => {
      session.off("error", reject);
      if (first === undefined) reject(new Error("the stream was closed without an answer"));
      else resolve({ head: first, trailers, body: Buffer.concat(chunks) });
    });
    stream.end(body);
  });
}

function outcomeOf({ head, trailers, body }: Answer): OtlpOutcome {
  const last = trailers ?? head;
  const status = Number(head[":status"] ?? 0);
  const code = last["grpc-status"] === undefined ? codeOfHttpStatus(status) : Number(last["grpc-status"]);
  if (code !== 0) return grpcFailure(code, statusOf(last, status));
  // No encoding of answers is accepted, so the message is as it was written.
  return { kind: "taken", ...readPartialSuccess(body.subarray(PREFIX_BYTES)) };
}

function statusOf(headers: IncomingHttpHeaders, httpStatus: number): RpcStatus {
  const details = headers["grpc-status-details-bin"];
  const { retryDelayMs } = readRpcStatus(Buffer.from(String(details ?? ""), "base64"));
  const text = String(headers["grpc-message"] ?? (headers["grpc-status"] === undefined ? `HTTP ${httpStatus}` : ""));
  return { message: decodedMessage(text), retryDelayMs };
}

/** `grpc-message` is percent-encoded; text that is not stays as it is. */
function decodedMessage(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
