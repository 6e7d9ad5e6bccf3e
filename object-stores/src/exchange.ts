/**
 * One HTTP exchange with a store: statuses become failures that pass or reasons that a user can act on. Knows no store; who signs
 * does it before.
 */

import {
  brokenConnection,
  type HttpTimeouts,
  openResponse,
  PLAIN_HEADERS,
  placeOf,
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
  /** Not for what is signed: a signature is for one address. */
  readonly followsRedirects?: boolean;
}

/** A listing's page, a token: never more than some megabytes. */
const MAX_TEXT_BYTES = 64 << 20;
const MAX_REASON_CHARS = 300;

/** A refusal by its status: the caller may know what it means. */
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

/** Answers of 2xx only. @throws TransientFailure, RefusedRequest, ToolError */
export function exchange(request: OutgoingRequest, patience: HttpTimeouts): Promise<ObjectReply> {
  return openResponse(request.url, patience, {
    followsRedirects: request.followsRedirects === true,
    send: (url, signal) => send(request, url, signal),
    refusal,
    failure: (error, url) => connectionFailure(error, url, patience.signal),
  });
}

/** Whom the request was for gets its authorization, nobody that it is sent on to. */
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

/** The whole answer as text. */
export async function exchangeText(
  request: OutgoingRequest,
  patience: HttpTimeouts,
): Promise<{ readonly text: string; readonly headers: Headers }> {
  const reply = await exchange(request, patience);
  const tooLong = (): Error => new ToolError(`${placeOf(request.url)} answers more than ${MAX_TEXT_BYTES} bytes`);
  const text = await readText(reply, MAX_TEXT_BYTES, tooLong).catch((error: unknown) => {
    throw connectionFailure(error, request.url, patience.signal);
  });
  return { text, headers: reply.response.headers };
}

/** @throws TransientFailure when the answer is none: what stands between may have spoken */
export async function exchangeJson(
  request: OutgoingRequest,
  patience: HttpTimeouts,
): Promise<Readonly<Record<string, unknown>>> {
  const { text } = await exchangeText(request, patience);
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Readonly<Record<string, unknown>>;
  } catch (error) {
    throw new TransientFailure(`${placeOf(request.url)} answers no JSON`, { cause: error });
  }
  throw new TransientFailure(`${placeOf(request.url)} answers no JSON object`);
}

/** What a broken connection throws, as a failure that may pass. */
function connectionFailure(error: unknown, url: URL, signal: AbortSignal): unknown {
  return brokenConnection(error, signal, (reason) => new TransientFailure(`${url.host}: ${reason}`, { cause: error }));
}

async function refusal(response: Response, url: URL): Promise<Error> {
  const { status, headers } = response;
  const reason = await reasonOf(response);
  if (TRANSIENT_STATUSES.has(status)) {
    return new TransientFailure(`${placeOf(url)} answers ${status}${reason}`, { waitMs: retryAfterMs(headers) });
  }
  return new RefusedRequest(`${placeOf(url)} answers ${status}${reason}`, status, headers);
}

/** The code and the sentence of an error document, or the beginning of whatever it is. */
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
