/**
 * One call: an HTTP/2 stream that speaks gRPC (gRPC over HTTP/2). Checks the request headers, cuts the input into
 * messages, keeps the deadline, sends responses and the status. Knows no message type.
 */
import { Cancellation } from "../../../core/cancellation.ts";
import type { RequestTrace } from "../../../core/request-trace.ts";
import type { BodyBudget } from "../../body-budget.ts";
import type { CallAccess } from "../../call-access.ts";
import { HeldBytes } from "../../held-bytes.ts";
import { type Http2Stream, type StreamListener, stopInput } from "../../http2/stream.ts";
import { LOAD_FORMAT_HEADER, LOAD_TRAILER, type LoadReports, loadTrailer } from "../../load-report-text.ts";
import type { GrpcCompressionLevel } from "../options.ts";
import type {
  CallContext,
  GrpcMethod,
  Metadata,
  OutgoingMessage,
  StreamCall,
  StreamHandler,
  UnaryMethod,
} from "../routes/method.ts";
import { GRPC_STATUS, GrpcError, statusTrailers } from "../status.ts";
import { endTrace } from "../trace-calls.ts";
import {
  ACCEPTED_ENCODINGS,
  chooseEncoding,
  type GrpcEncoding,
  inflateMessage,
  parseGrpcEncoding,
} from "./compression.ts";
import { FrameReader, PREFIX_BYTES } from "./message-reader.ts";
import { MessageSender } from "./message-sender.ts";
import { parseGrpcTimeout } from "./timeout.ts";

/** Parts of the front end that a call uses. */
export interface CallEnvironment {
  readonly maxMessageBytes: number;
  readonly inferCompressionLevel: GrpcCompressionLevel;
  /** One for all bodies and messages, those of HTTP among them. */
  readonly budget: BodyBudget;
  /** Absent: no load reports. */
  readonly load: LoadReports | undefined;
  /** Sees the causes of internal errors. */
  logFailure(path: string, error: GrpcError): void;
  ended(call: GrpcCall): void;
}

const RESPONSE_FIELDS: readonly string[] = [
  ":status",
  "200",
  "content-type",
  "application/grpc",
  "grpc-accept-encoding",
  ACCEPTED_ENCODINGS,
];
const COMPRESSED_FIELDS = {
  gzip: [...RESPONSE_FIELDS, "grpc-encoding", "gzip"],
  deflate: [...RESPONSE_FIELDS, "grpc-encoding", "deflate"],
};
const OK_TRAILERS: readonly string[] = statusTrailers(GRPC_STATUS.ok, "");

/** A call as the front end let it in. */
export interface AdmittedCall {
  /** Number of the call among those of its RPC, for the log. */
  readonly id: number;
  /** Absent: calls need no API key. */
  readonly access?: CallAccess | undefined;
}

export class GrpcCall implements CallContext, StreamCall, StreamListener {
  readonly metadata: Metadata;
  readonly cancellation: Cancellation = new Cancellation();
  readonly access: CallAccess | undefined;
  readonly id: number;
  trace: RequestTrace | undefined;
  readonly #stream: Http2Stream;
  readonly #method: GrpcMethod;
  readonly #environment: CallEnvironment;
  readonly #frames: FrameReader;
  readonly #encoding: GrpcEncoding;
  readonly #sender: MessageSender;
  readonly #held: HeldBytes;
  /** Messages whose handlers still read them; the last one returns what the call holds. */
  #numHandled = 0;
  #isClosed = false;
  #handler: StreamHandler | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #hasMessage = false;
  #isInflating = false;
  #isInputOver = false;
  #isEnded = false;

  /** @throws GrpcError when the request headers are not acceptable */
  constructor(stream: Http2Stream, method: GrpcMethod, environment: CallEnvironment, { id, access }: AdmittedCall) {
    const metadata = stream.head.headers;
    this.metadata = metadata;
    this.id = id;
    this.access = access;
    this.#stream = stream;
    this.#method = method;
    this.#environment = environment;
    this.#frames = new FrameReader(environment.maxMessageBytes);
    this.#held = new HeldBytes(environment.budget);
    this.#encoding = parseGrpcEncoding(metadata["grpc-encoding"]);
    const level = method.isInference ? environment.inferCompressionLevel : "none";
    this.#sender = new MessageSender(stream, chooseEncoding(level, metadata["grpc-accept-encoding"]));
  }

  get path(): string {
    return this.metadata[":path"] ?? "";
  }

  start(): void {
    this.#stream.listener = this;
    const timeoutMs = parseGrpcTimeout(this.metadata["grpc-timeout"]);
    if (timeoutMs !== undefined) this.#deadline = setTimeout(onDeadline, timeoutMs, this);
    if (this.#method.kind === "stream") this.#open(this.#method.open.bind(this.#method));
  }

  #open(open: (call: StreamCall) => StreamHandler): void {
    // Clients of streams may wait for the headers before they send or read anything.
    this.#respond();
    try {
      this.#handler = open(this);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Tells a stream that the server drains. */
  drain(): void {
    this.#handler?.drain?.();
  }

  data(chunk: Uint8Array): void {
    if (this.#isEnded) return;
    try {
      this.#held.hold(chunk.length);
    } catch (error) {
      this.fail(error);
      return;
    }
    this.#frames.push(chunk);
    this.#advance();
  }

  end(): void {
    this.#isInputOver = true;
    this.#advance();
  }

  /** Hands on every message that is whole; stops while one is being inflated, so that their order holds. */
  #advance(): void {
    try {
      while (!this.#isInflating && !this.#isEnded) {
        const frame = this.#frames.next();
        if (frame === undefined) break;
        if (frame.compressed) this.#inflate(frame.data);
        else this.#message(frame.data, PREFIX_BYTES + frame.data.length);
      }
      if (this.#isInputOver && !this.#isInflating && !this.#isEnded) this.#halfClose();
    } catch (error) {
      this.fail(error);
    }
  }

  #inflate(data: Uint8Array): void {
    this.#isInflating = true;
    this.#stream.pause();
    this.#numHandled += 1;
    inflateMessage(data, this.#encoding, this.#environment.maxMessageBytes, this.#held).then(
      (bytes) => {
        this.#isInflating = false;
        this.#held.giveBack(PREFIX_BYTES + data.length);
        this.#handled(0);
        if (this.#isEnded) return;
        this.#tryMessage(bytes);
        this.#stream.resume();
        this.#advance();
      },
      (error: unknown) => {
        this.#handled(0);
        this.fail(error);
      },
    );
  }

  /** A message is read by nobody any more. */
  #handled(numBytes: number): void {
    this.#numHandled -= 1;
    this.#held.giveBack(numBytes);
    if (this.#isClosed && this.#numHandled === 0) this.#held.release();
  }

  #tryMessage(bytes: Uint8Array): void {
    try {
      this.#message(bytes, bytes.length);
    } catch (error) {
      this.fail(error);
    }
  }

  /** `heldBytes`: what the message counts in the budget until its handler is done. */
  #message(bytes: Uint8Array, heldBytes: number): void {
    if (this.#method.kind === "stream") {
      void this.#streamed(bytes, heldBytes);
      if (this.#sender.isFarBehind) this.#hold();
    } else if (!this.#hasMessage) {
      // A unary call is its first message; what else a client sends has no meaning.
      this.#hasMessage = true;
      void this.#answer(this.#method, bytes);
    }
  }

  async #streamed(bytes: Uint8Array, heldBytes: number): Promise<void> {
    this.#numHandled += 1;
    try {
      const work = this.#handler?.message(bytes);
      if (work !== undefined) await work;
    } catch (error) {
      this.fail(error);
    } finally {
      this.#handled(heldBytes);
    }
  }

  /** A client that does not read its answers may not send more requests for ever. */
  #hold(): void {
    this.#stream.pause();
    void this.#sender.drained().then(() => this.#stream.resume());
  }

  #halfClose(): void {
    if (!this.#frames.isAtBoundary) throw new GrpcError(GRPC_STATUS.internal, "Message was cut off");
    if (this.#method.kind === "stream") this.#handler?.halfClose();
    else if (!this.#hasMessage) throw new GrpcError(GRPC_STATUS.internal, "No payload");
  }

  async #answer(method: UnaryMethod, bytes: Uint8Array): Promise<void> {
    this.#numHandled += 1;
    try {
      const message = await method.handle(bytes, this);
      if (this.#isEnded) return;
      this.#respond();
      this.#isEnded = true;
      clearTimeout(this.#deadline);
      this.#sender.sendLast(message, this.#withLoad(OK_TRAILERS));
      stopInput(this.#stream);
    } catch (error) {
      this.fail(error);
    } finally {
      this.#handled(0);
    }
  }

  send(message: OutgoingMessage): Promise<void> | undefined {
    if (this.#isEnded) return undefined;
    return this.#sender.send(message);
  }

  finish(): void {
    this.#end(OK_TRAILERS);
  }

  report(thrown: unknown): void {
    this.#environment.logFailure(this.path, GrpcError.from(thrown));
  }

  fail(thrown: unknown): void {
    if (this.#isEnded) return;
    const error = GrpcError.from(thrown);
    this.report(error);
    this.#end(statusTrailers(error.status, error.message));
    this.cancellation.cancel();
  }

  #end(trailers: readonly string[]): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearTimeout(this.#deadline);
    const last = this.#withLoad(trailers);
    if (this.#stream.hasHead) this.#sender.end(last);
    else this.#stream.respond([...RESPONSE_FIELDS, ...last], { ends: true });
    stopInput(this.#stream);
  }

  #respond(): void {
    const { encoding } = this.#sender;
    const fields = encoding === "identity" ? RESPONSE_FIELDS : COMPRESSED_FIELDS[encoding];
    this.#stream.respond(fields, { isConstant: true });
  }

  /** The trailers of an inference say how loaded the server is, to those who ask. */
  #withLoad(trailers: readonly string[]): readonly string[] {
    const { load } = this.#environment;
    if (load === undefined || !this.#method.isInference) return trailers;
    load.count(trailers !== OK_TRAILERS);
    if (this.metadata[LOAD_FORMAT_HEADER] === undefined) return trailers;
    return [...trailers, LOAD_TRAILER, loadTrailer(load.report())];
  }

  closed(): void {
    clearTimeout(this.#deadline);
    if (this.trace !== undefined) endTrace(this.trace);
    this.#sender.closed();
    if (!this.#isEnded) {
      this.#isEnded = true;
      this.cancellation.cancel();
    }
    this.#isClosed = true;
    if (this.#numHandled === 0) this.#held.release();
    this.#environment.ended(this);
  }

  deadlineExceeded(): void {
    this.fail(new GrpcError(GRPC_STATUS.deadlineExceeded, "Deadline Exceeded"));
  }

  /** Ends the call from the server's side. */
  cancel(status: number, message: string): void {
    this.fail(new GrpcError(status, message));
  }
}

function onDeadline(call: GrpcCall): void {
  call.deadlineExceeded();
}
