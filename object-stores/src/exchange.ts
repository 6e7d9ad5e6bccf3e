/**
 * One HTTP exchange with a store (RFC 9110): maps statuses to transient failures or errors that a user can act on.
 * Knows no store; requests arrive signed.
 */

import {
  brokenConnection,
  displayUrl,
  type HttpTimeouts,
  openResponse,
  PLAIN_HEADERS,
  TransientFailure,
} from "@nereid/server/files/http-exchange";
import { readText, retryAfterMs, TRANSIENT_STATUSES } from "@nereid/server/files/http-response";
import { ToolError } from "@nereid/server/files/tool-error";
import type { ObjectReply } from "./object-store.ts";

export interface OutgoingRequest {
  readonly url: URL;
  readonly method?: "GET" | "HEAD" | "POST" | "PUT";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Not for signed requests: a signature is valid for one address. */
  readonly followsRedirects?: boolean;
}

/** Maximum bytes of a listing page or token response. */
const MAX_TEXT_BYTES = 64 << 20;
const MAX_REASON_CHARS = 300;

/** A refusal with its status, for callers that interpret it. */
export class RefusedRequest extends ToolError {
  readonly status: number;
  readonly headers: Headers;

  constructor(message: string, status: number, headers: Headers) {
    const fix = FIXES.get(status);
    super(message, fix === undefined ? {} : { fix });
    this.name = "RefusedRequest";
    this.status = status;
    this.headers = headers;
  }
}

const FIXES: ReadonlyMap<number, string> = new Map([
  [401, "Check the credentials"],
  [403, "Check the credentials and what they may read"],
  [404, "Check the name"],
]);

/** Returns 2xx responses only. @throws TransientFailure, RefusedRequest, ToolError */
export function exchange(request: OutgoingRequest, patience: HttpTimeouts): Promise<ObjectReply> {
  return openResponse(request.url, patience, {
    followsRedirects: request.followsRedirects === true,
    send: (url, signal) => send(request, url, signal),
    refusal,
    failure: (error, url) => connectionFailure(error, url, patience.signal),
  });
}

/** The authorization header goes to the original host only, not to redirect targets. */
function send(request: OutgoingRequest, url: URL, signal: AbortSignal): Promise<Response> {
  const { authorization, ...others } = request.headers ?? {};
  const isSame = url.origin === request.url.origin;
  return fetch(url, {
    method: request.method ?? "GET",
    headers: {
      ...PLAIN_HEADERS,
      ...others,
      ...(isSame && authorization !== undefined ? { authorization } : {}),
    },
    body: request.body ?? null,
    redirect: "manual",
    signal,
  });
}

/** The whole response as text. */
export async function exchangeText(
  request: OutgoingRequest,
  patience: HttpTimeouts,
): Promise<{ readonly text: string; readonly headers: Headers }> {
  const reply = await exchange(request, patience);
  const tooLong = (): Error => new ToolError(`${displayUrl(request.url)} answers more than ${MAX_TEXT_BYTES} bytes`);
  const text = await readText(reply, MAX_TEXT_BYTES, tooLong).catch((error: unknown) => {
    throw connectionFailure(error, request.url, patience.signal);
  });
  return { text, headers: reply.response.headers };
}

/** @throws TransientFailure when the response is not JSON: a proxy may have answered */
export async function exchangeJson(
  request: OutgoingRequest,
  patience: HttpTimeouts,
): Promise<Readonly<Record<string, unknown>>> {
  const { text } = await exchangeText(request, patience);
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Readonly<Record<string, unknown>>;
  } catch (error) {
    throw new TransientFailure(`${displayUrl(request.url)} answers no JSON`, { cause: error });
  }
  throw new TransientFailure(`${displayUrl(request.url)} answers no JSON object`);
}

/** Converts errors of a broken connection to a transient failure. */
function connectionFailure(error: unknown, url: URL, signal: AbortSignal): unknown {
  return brokenConnection(error, signal, (reason) => new TransientFailure(`${url.host}: ${reason}`, { cause: error }));
}

async function refusal(response: Response, url: URL): Promise<Error> {
  const { status, headers } = response;
  const reason = await reasonOf(response);
  if (TRANSIENT_STATUSES.has(status)) {
    return new TransientFailure(`${displayUrl(url)} answers ${status}${reason}`, { waitMs: retryAfterMs(headers) });
  }
  return new RefusedRequest(`${displayUrl(url)} answers ${status}${reason}`, status, headers);
}

/** Code and message of an XML error document, or the beginning of any other body. */
async function reasonOf(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  const first = await reader?.read().catch(() => undefined);
  await reader?.cancel().catch(() => undefined);
  const text = Buffer.from(first?.value ?? []).toString("utf8");
  const named = /<Code>([^<]{1,100})<\/Code>\s*<Message>([^<]{0,200})/.exec(text);
  if (named !== null) return `: ${named[1]}: ${named[2]}`;
  const plain = text.replaceAll(/\s+/g, " ").trim().slice(0, MAX_REASON_CHARS);
  return plain === "" ? "" : `: ${plain}`;
}
