/** A proxy of gRPC over HTTP/2 without TLS on its own side: streams, trailers, cancellation and back pressure pass through. */
import http2, {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { Target } from "../target/target.ts";
import type { Capture, Recorder } from "./recorder.ts";
import { type HeaderList, isInference } from "./recording.ts";

const UNAVAILABLE = "14";
/** Large tensors need more than the 64 KiB of HTTP/2's default. */
const WINDOW_BYTES = 4 * 1024 * 1024;
const SETTINGS = { initialWindowSize: WINDOW_BYTES, enablePush: false } as const;
const { NGHTTP2_CANCEL, NGHTTP2_NO_ERROR } = http2.constants;

export function createGrpcProxy(target: Target, recorder: Recorder): http2.Http2Server {
  const upstream = new UpstreamSession(target);
  const server = http2.createServer({ settings: { ...SETTINGS, maxConcurrentStreams: 1024 } });
  const sessions = new Set<http2.ServerHttp2Session>();
  server.on("session", (session) => {
    session.setLocalWindowSize(WINDOW_BYTES * 4);
    sessions.add(session);
    session.on("error", () => session.destroy()).on("close", () => sessions.delete(session));
  });
  server.on("stream", (stream, headers) => {
    const path = headers[":path"] ?? "";
    const method = headers[":method"] ?? "POST";
    const isSeen = isInference(method, path);
    const capture = isSeen ? recorder.begin({ protocol: "grpc", method, path, headers: plain(headers) }) : undefined;
    relay(stream, upstream.request(headers), capture);
  });
  server.on("close", () => upstream.close());
  const close = server.close.bind(server);
  server.close = (callback) => {
    for (const session of sessions) session.close();
    return close(callback);
  };
  return server;
}

/** One connection, made again when it is gone. */
class UpstreamSession {
  readonly #target: Target;
  #session: ClientHttp2Session | undefined;

  constructor(target: Target) {
    this.#target = target;
  }

  request(headers: IncomingHttpHeaders): ClientHttp2Stream {
    const own = Object.fromEntries(
      Object.entries(headers).filter(([name]) => name !== ":authority" && name !== "host"),
    );
    return this.#open().request({ ...own, ":authority": this.#target.hostHeader }, { endStream: false });
  }

  close(): void {
    this.#session?.close();
  }

  #open(): ClientHttp2Session {
    const { base, address } = this.#target;
    if (this.#session !== undefined && !this.#session.closed && !this.#session.destroyed) return this.#session;
    const session = http2.connect(base, { settings: SETTINGS, rejectUnauthorized: address.tls?.isVerified ?? true });
    session.on("connect", () => session.setLocalWindowSize(WINDOW_BYTES * 4));
    const forget = (): void => {
      if (this.#session === session) this.#session = undefined;
    };
    session.on("error", forget).on("goaway", forget).on("close", forget);
    this.#session = session;
    return session;
  }
}

function relay(stream: ServerHttp2Stream, upstream: ClientHttp2Stream, capture: Capture | undefined): void {
  let answered: IncomingHttpHeaders = {};
  let trailers: IncomingHttpHeaders = {};
  if (capture !== undefined) {
    stream.on("data", (part: Buffer) => capture.request(part));
    upstream.on("data", (part: Buffer) => capture.answer(part));
  }
  stream.pipe(upstream);
  upstream.on("response", (headers, flags) => {
    answered = headers;
    const isEnd = (flags & http2.constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    if (!stream.headersSent && !stream.destroyed)
      stream.respond(headers, { endStream: isEnd, waitForTrailers: !isEnd });
  });
  upstream.on("trailers", (headers) => {
    trailers = headers;
  });
  stream.on("wantTrailers", () => stream.sendTrailers(withoutPseudo(trailers)));
  upstream.pipe(stream);
  upstream.on("end", () => {
    const status = { ...answered, ...trailers };
    if (status["grpc-status"] === undefined) capture?.abandon();
    else
      capture?.end({
        status: Number(status["grpc-status"]),
        message: String(status["grpc-message"] ?? ""),
        headers: plain(answered),
      });
  });
  upstream.on("error", (error) => {
    capture?.abandon();
    if (stream.headersSent || stream.destroyed) stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
    else {
      const message = encodeURIComponent(`the server behind nereid record does not answer: ${error.message}`);
      stream.respond(
        { ":status": 200, "content-type": "application/grpc", "grpc-status": UNAVAILABLE, "grpc-message": message },
        { endStream: true },
      );
    }
  });
  stream.on("error", () => upstream.close(NGHTTP2_CANCEL));
  stream.on("close", () => {
    if (stream.rstCode !== NGHTTP2_NO_ERROR) capture?.abandon();
    if (!upstream.closed && !upstream.readableEnded) upstream.close(NGHTTP2_CANCEL);
  });
}

function plain(headers: IncomingHttpHeaders): HeaderList {
  return Object.entries(headers)
    .filter(([name]) => !name.startsWith(":"))
    .flatMap(([name, value]) => [value].flat().map((each) => [name, String(each)] as const));
}

function withoutPseudo(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith(":")));
}
