/** GET /metrics on a port of its own, in the Prometheus exposition format. Knows no metric. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Logger } from "../../observe/log.ts";
import { type BindOptions, type BoundAddress, bind } from "../bind.ts";
import { type CloseOptions, close } from "../http-listener.ts";

export interface MetricsFrontendOptions extends BindOptions {
  /** The exposition text, made anew for every scrape. */
  readonly render: () => string | Promise<string>;
  readonly log: Logger;
}

export interface MetricsFrontend {
  /** @throws the error of the socket, e.g. EADDRINUSE */
  listen(): Promise<BoundAddress>;
  close(options?: CloseOptions): Promise<void>;
}

export function createMetricsFrontend({ render, log, ...place }: MetricsFrontendOptions): MetricsFrontend {
  const server = createServer((request, response) => {
    response.sendDate = false;
    answer(request, response, render).catch((error: unknown) => {
      log.error("metrics", error instanceof Error ? (error.stack ?? error.message) : String(error));
      if (response.headersSent) response.destroy();
      else send(response, 500, "text/plain", '{"error":"Internal error"}');
    });
  });
  return { listen: () => bind(server, place), close: (options) => close(server, options) };
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
  const head = ["Content-Type", contentType, "Content-Length", String(body.length)];
  if (status === 405) response.writeHead(status, "Not Allowed", head);
  else response.writeHead(status, head);
  response.end(body);
}
