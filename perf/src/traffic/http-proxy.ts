/** A proxy of HTTP/1.1 that shows inference to a recorder and passes everything on as it came (RFC 9110, 7.6). */
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import type { Target } from "../target/target.ts";
import type { Capture, Recorder } from "./recorder.ts";
import { type HeaderList, isInference } from "./recording.ts";

/** Fields of one connection, not of the message (RFC 9110, 7.6.1); Node writes its own. */
const HOP_BY_HOP = ["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];
const BAD_GATEWAY = 502;

export function createHttpProxy(target: Target, recorder: Recorder): http.Server {
  const client = target.address.tls === undefined ? http : https;
  const agent = new client.Agent({ keepAlive: true });
  const server = http.createServer((request, response) => {
    const { method = "GET", url = "/" } = request;
    const headers = forwarded(request.rawHeaders);
    const isSeen = isInference(method, url);
    const capture = isSeen ? recorder.begin({ protocol: "http", method, path: url, headers }) : undefined;
    const withHost = [
      ...headers.filter(([name]) => name.toLowerCase() !== "host"),
      ["Host", target.hostHeader] as const,
    ];
    const upstream = client.request({
      agent,
      host: target.address.host,
      port: target.address.port,
      method,
      path: target.prefix + url,
      headers: withHost.flat(),
      rejectUnauthorized: target.address.tls?.isVerified ?? true,
      ca: target.address.tls?.ca,
    });
    relay(request, response, upstream, capture);
  });
  server.requestTimeout = 0; // the server behind decides
  server.on("close", () => agent.destroy());
  return server;
}

function relay(
  request: IncomingMessage,
  response: ServerResponse,
  upstream: http.ClientRequest,
  capture: Capture | undefined,
): void {
  if (capture !== undefined) request.on("data", (part: Buffer) => capture.request(part));
  request.pipe(upstream);
  upstream.on("response", (answer) => {
    const headers = forwarded(answer.rawHeaders);
    response.writeHead(answer.statusCode ?? BAD_GATEWAY, answer.statusMessage, headers.flat());
    if (capture !== undefined) answer.on("data", (part: Buffer) => capture.answer(part));
    answer.on("end", () => capture?.end({ status: answer.statusCode ?? BAD_GATEWAY, headers }));
    answer.on("error", () => response.destroy());
    answer.pipe(response);
  });
  upstream.on("error", (error) => {
    capture?.abandon();
    if (response.headersSent) response.destroy();
    else {
      response.writeHead(BAD_GATEWAY, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: `the server behind nereid record does not answer: ${error.message}` }));
    }
  });
  response.on("close", () => {
    if (response.writableFinished) return;
    capture?.abandon();
    upstream.destroy();
  });
}

/** Names and values in pairs, without the fields of the connection. */
function forwarded(raw: readonly string[]): HeaderList {
  const pairs: (readonly [string, string])[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) pairs.push([raw[at] ?? "", raw[at + 1] ?? ""]);
  const connection = pairs
    .filter(([name]) => name.toLowerCase() === "connection")
    .flatMap(([, value]) => value.split(","));
  const dropped = new Set([...HOP_BY_HOP, ...connection.map((name) => name.trim().toLowerCase())]);
  return pairs.filter(([name]) => !dropped.has(name.toLowerCase()));
}
