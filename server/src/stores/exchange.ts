/**
 * One HTTP exchange with a store: silence has an end, redirects are not followed, statuses become failures that pass or reasons
 * that a user can act on. Knows no store; who signs does it before.
 */
import { MAX_REDIRECTS, PASSING_STATUSES, readText, retryAfterMs } from "../offline/http-answer.ts";
import { PassingFailure, StallTimer } from "../offline/hub-http.ts";
import { ToolError } from "../offline/tool-error.ts";
import type { ObjectReply } from "./object-store.ts";

export interface OutgoingRequest {
  readonly url: URL;
  readonly method?: "GET" | "HEAD" | "POST" | "PUT";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Not for what is signed: a signature is for one address. */
  readonly followsRedirects?: boolean;
}

export interface Patience {
  /** How long a connection may be silent. */
  readonly stallMs: number;
  readonly signal: AbortSignal;
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

/** Answers of 2xx only. @throws PassingFailure, RefusedRequest, ToolError */
export async function exchange(request: OutgoingRequest, patience: Patience): Promise<ObjectReply> {
  const stall = new StallTimer(patience);
  let { url } = request;
  try {
    for (let hop = 0; hop <= MAX_REDIRECTS; hop += 1) {
      const response = await send(request, url, stall.signal);
      stall.alive();
      if (response.ok) return { response, alive: () => stall.alive(), done: () => stall.end() };
      const location = response.headers.get("location");
      if (request.followsRedirects !== true || response.status >= 400 || location === null) {
        throw await refusal(response, url);
      }
      await response.body?.cancel();
      url = nextAddress(url, location);
    }
    throw new ToolError(`${placeOf(request.url)}: more than ${MAX_REDIRECTS} redirects`);
  } catch (error) {
    stall.end();
    throw connectionFailure(error, url, patience.signal);
  }
}

/** Whom the request was for gets its authorization, nobody that it is sent on to. */
function send(request: OutgoingRequest, url: URL, signal: AbortSignal): Promise<Response> {
  const { authorization, ...others } = request.headers ?? {};
  const isSame = url.origin === request.url.origin;
  return fetch(url, {
    method: request.method ?? "GET",
    headers: {
      "user-agent": "nereid",
      "accept-encoding": "identity",
      ...others,
      ...(isSame && authorization !== undefined ? { authorization } : {}),
    },
    body: request.body ?? null,
    redirect: "manual",
    signal,
  });
}

/** Never from a protected connection to an open one. */
function nextAddress(from: URL, location: string): URL {
  const next = URL.canParse(location, from.href) ? new URL(location, from) : undefined;
  if (next !== undefined && (next.protocol === "https:" || next.protocol === from.protocol)) return next;
  throw new ToolError(`${placeOf(from)} redirects to '${location}', which is not followed`);
}

/** The whole answer as text. */
export async function exchangeText(
  request: OutgoingRequest,
  patience: Patience,
): Promise<{ readonly text: string; readonly headers: Headers }> {
  const reply = await exchange(request, patience);
  const tooLong = (): Error => new ToolError(`${placeOf(request.url)} answers more than ${MAX_TEXT_BYTES} bytes`);
  const text = await readText(reply, MAX_TEXT_BYTES, tooLong).catch((error: unknown) => {
    throw connectionFailure(error, request.url, patience.signal);
  });
  return { text, headers: reply.response.headers };
}

/** @throws PassingFailure when the answer is none: what stands between may have spoken */
export async function exchangeJson(
  request: OutgoingRequest,
  patience: Patience,
): Promise<Readonly<Record<string, unknown>>> {
  const { text } = await exchangeText(request, patience);
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Readonly<Record<string, unknown>>;
  } catch (error) {
    throw new PassingFailure(`${placeOf(request.url)} answers no JSON`, { cause: error });
  }
  throw new PassingFailure(`${placeOf(request.url)} answers no JSON object`);
}

/** What a broken connection throws, as a failure that may pass. */
export function connectionFailure(error: unknown, url: URL, signal: AbortSignal): unknown {
  if (signal.aborted || error instanceof ToolError || error instanceof PassingFailure) return error;
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const reason = cause instanceof Error ? cause.message || cause.name : String(cause);
  return new PassingFailure(`${url.host}: ${reason}`, { cause: error });
}

/** Without its query: that may hold secrets. */
export function placeOf(url: URL): string {
  return `${url.origin}${url.pathname}`;
}

async function refusal(response: Response, url: URL): Promise<Error> {
  const { status, headers } = response;
  const reason = await reasonOf(response);
  if (PASSING_STATUSES.has(status)) {
    return new PassingFailure(`${placeOf(url)} answers ${status}${reason}`, { waitMs: retryAfterMs(headers) });
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
