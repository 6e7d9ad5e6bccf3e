/** GET /metrics on a port of its own, in the Prometheus exposition format. Knows no metric. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { http } from "../../native/node-http.ts";
import type { Logger } from "../../observe/log.ts";
import { type BindOptions, type BoundAddress, bind } from "../bind.ts";
import type { Cors } from "../http/cors.ts";
import { describeCall } from "../http/describe-call.ts";
import { type CloseOptions, close } from "../http-listener.ts";
import { httpActivity } from "../peer-connections.ts";

export interface MetricsFrontendOptions extends BindOptions {
  /** The exposition text, made anew for every scrape. */
  readonly render: () => string | Promise<string>;
  readonly log: Logger;
  /** Absent: browsers show the page to no other origin. */
  readonly cors?: Cors | undefined;
}

export interface MetricsFrontend {
  /** @throws the error of the socket, e.g. EADDRINUSE */
  listen(): Promise<BoundAddress>;
  close(options?: CloseOptions): Promise<void>;
}

export function createMetricsFrontend({ render, log, cors, ...place }: MetricsFrontendOptions): MetricsFrontend {
  const latest = new WeakMap<Socket, ServerResponse>();
  const server = http.createServer((request, response) => {
    latest.set(request.socket, response);
    response.sendDate = false;
    const { method = "", url = "" } = request;
    log.verbose(1, "http_server", () => `HTTP request: ${describeCall({ method, path: url.split("?", 1)[0] ?? "" })}`);
    if (cors !== undefined && answerCors(cors, request, response)) return;
    answer(request, response, render).catch((error: unknown) => {
      log.error("metrics", error instanceof Error ? (error.stack ?? error.message) : String(error));
      if (response.headersSent) response.destroy();
      else send(response, 500, "text/plain", '{"error":"Internal error"}');
    });
  });
  server.on("connection", (socket: Socket) => place.peers?.describe(socket, () => httpActivity(latest.get(socket))));
  return { listen: () => bind(server, place), close: (options) => close(server, options) };
}

/** Whether it was a preflight, which has its answer. */
function answerCors(cors: Cors, { method = "", headers }: IncomingMessage, response: ServerResponse): boolean {
  const header = (name: string): string | undefined => {
    const value = headers[name];
    return typeof value === "string" ? value : undefined;
  };
  const preflight = cors.preflight(method, header);
  if (preflight === undefined) {
    setHeaders(response, cors.headers(header));
    return false;
  }
  setHeaders(response, preflight.headers);
  response.writeHead(preflight.status).end();
  return true;
}

function setHeaders(response: ServerResponse, headers: readonly string[]): void {
  for (let i = 0; i + 1 < headers.length; i += 2) response.setHeader(headers[i] ?? "", headers[i + 1] ?? "");
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  render: MetricsFrontendOptions["render"],
): Promise<void> {
  if (request.method !== "GET") {
    send(response, 405, "text/plain", '{"error":"Method Not Allowed"}');
    return;
  }
  const [path] = (request.url ?? "").split("?");
  const isMetrics = path === "/metrics" || path === "/metrics/";
  send(response, 200, "text/plain; charset=utf-8", isMetrics ? await render() : "");
}

function send(response: ServerResponse, status: number, contentType: string, text: string): void {
  const body = Buffer.from(text);
  setHeaders(response, ["Content-Type", contentType, "Content-Length", String(body.length)]);
  if (status === 405) response.writeHead(status, "Not Allowed");
  else response.writeHead(status);
  response.end(body);
}
