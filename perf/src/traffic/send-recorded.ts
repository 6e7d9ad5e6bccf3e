/** Sends a recorded request to a server as it came, over HTTP/1.1 or gRPC, and collects the answer. */
import http from "node:http";
import http2, { type ClientHttp2Session } from "node:http2";
import https from "node:https";
import type { Target } from "../target/target.ts";
import { splitGrpcMessages } from "./recorder.ts";
import { type Answer, type Exchange, type HeaderList, isInference } from "./recording.ts";
import { REDACTED } from "./redact.ts";

/** @throws Error of the connection */
export type SendRecorded = (exchange: Exchange, signal: AbortSignal) => Promise<Answer>;

export interface Sender {
  readonly send: SendRecorded;
  close(): void;
}

const NOT_SENT = ["content-length", "host", "connection", "transfer-encoding", "expect", "accept-encoding"];

export function createHttpSender(target: Target, own: HeaderList): Sender {
  const client = target.address.tls === undefined ? http : https;
  const agent = new client.Agent({ keepAlive: true });
  const send: SendRecorded = ({ method, path, headers, bodies }, signal) =>
    new Promise((resolve, reject) => {
      const startMs = performance.now();
      const body = Buffer.concat(bodies);
      const kept = [
        ...sentHeaders(headers, own),
        ["Content-Length", String(body.length)],
        ["Host", target.hostHeader],
      ] as const;
      const { host, port, tls } = target.address;
      const secure = { rejectUnauthorized: tls?.isVerified ?? true, ca: tls?.ca };
      const request = client.request(
        { agent, host, port, method, path: target.prefix + path, headers: kept.flat(), signal, ...secure },
        (response) => {
          const parts: Buffer[] = [];
          response.on("data", (part: Buffer) => parts.push(part)).on("error", reject);
          response.on("end", () => {
            const answered = Object.entries(response.headers).map(([name, value]) => [name, String(value)] as const);
            const ms = performance.now() - startMs;
            resolve({
              status: response.statusCode ?? 0,
              message: "",
              headers: answered,
              bodies: [Buffer.concat(parts)],
              ms,
            });
          });
        },
      );
      request.on("error", reject).end(body);
    });
  return { send, close: () => agent.destroy() };
}

/** All messages of a stream are sent at once. */
export function createGrpcSender(target: Target, own: HeaderList): Sender {
  let session: ClientHttp2Session | undefined;
  const connected = (): ClientHttp2Session => {
    if (session === undefined || session.closed || session.destroyed) {
      session = http2.connect(target.base, { rejectUnauthorized: target.address.tls?.isVerified ?? true });
      session.on("error", () => undefined); // each of its calls fails with it
    }
    return session;
  };
  const send: SendRecorded = ({ path, headers, bodies }, signal) =>
    new Promise((resolve, reject) => {
      const startMs = performance.now();
      const kept = sentHeaders(headers, own).map(([name, value]) => [name.toLowerCase(), value] as const);
      const call = connected().request({ ":method": "POST", ":path": path, ...Object.fromEntries(kept) }, { signal });
      const parts: Buffer[] = [];
      let status: Record<string, unknown> = {};
      const note = (fields: object): void => {
        status = { ...status, ...fields };
      };
      call
        .on("response", note)
        .on("trailers", note)
        .on("data", (part: Buffer) => parts.push(part))
        .on("error", reject);
      call.on("end", () => {
        const messages = splitGrpcMessages(Buffer.concat(parts));
        const message = String(status["grpc-message"] ?? "");
        resolve({
          status: Number(status["grpc-status"] ?? 2),
          message,
          headers: [],
          bodies: messages,
          ms: performance.now() - startMs,
        });
      });
      for (const body of bodies) call.write(framed(body));
      call.end();
    });
  return { send, close: () => session?.close() };
}

function framed(message: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

function sentHeaders(headers: HeaderList, own: HeaderList): HeaderList {
  const replaced = new Set([...NOT_SENT, ...own.map(([name]) => name.toLowerCase())]);
  return [...headers.filter(([name, value]) => !replaced.has(name.toLowerCase()) && value !== REDACTED), ...own];
}

/** Why a request cannot be repeated elsewhere; undefined: it can. */
export function whyNotSent({ method, path, bodies }: Exchange): string | undefined {
  if (!isInference(method, path)) return "no inference";
  return bodies.some((body) => body.includes("shared_memory_region")) ? "its tensors are in shared memory" : undefined;
}
