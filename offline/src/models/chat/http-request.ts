/**
 * A request over `node:http`, which a command that serves has loaded anyway. `fetch()` loads a client of its own, which takes
 * 20 ms of a start.
 */
import type { IncomingMessage } from "node:http";
import { createRequire } from "node:module";

/** Not by an import, which would load that client too (server/src/native/node-http.ts). */
const http: typeof import("node:http") = createRequire(import.meta.url)("node:http");

export interface HttpRequest {
  readonly headers: Readonly<Record<string, string>>;
  /** Makes it a POST. */
  readonly body?: string | undefined;
  readonly signal: AbortSignal;
}

export interface HttpAnswer {
  readonly status: number;
  readonly body: AsyncIterable<Uint8Array>;
}

/** Redirects are not followed. @throws Error of the connection or of the signal */
export async function requestUrl(url: string, { headers, body, signal }: HttpRequest): Promise<HttpAnswer> {
  const request = url.startsWith("https:") ? (await import("node:https")).request : http.request;
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const outgoing = request(url, { method: body === undefined ? "GET" : "POST", headers, signal }, resolve);
    outgoing.on("error", reject);
    outgoing.end(body);
  });
  return { status: answer.statusCode ?? 0, body: answer };
}

export function isOk({ status }: HttpAnswer): boolean {
  return status >= 200 && status < 300;
}

export async function textOf({ body }: HttpAnswer): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) text += decoder.decode(chunk, { stream: true });
  return text + decoder.decode();
}
