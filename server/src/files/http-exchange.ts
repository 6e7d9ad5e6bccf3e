/**
 * One HTTP exchange with a file server: inactivity timeout, redirects to safe addresses only (RFC 9110, section 15.4),
 * transient failures marked for retry. Knows no hub and no store: the caller builds the request and interprets
 * refusals.
 */
import { type IncomingResponse, MAX_REDIRECTS } from "./http-response.ts";
import { ToolError } from "./tool-error.ts";

export interface HttpTimeouts {
  /** Inactivity timeout of a connection, in milliseconds. */
  readonly stallMs: number;
  readonly signal: AbortSignal;
}

/** Headers of every request: no content coding, because bytes are stored unchanged. */
export const PLAIN_HEADERS: Readonly<Record<string, string>> = {
  "user-agent": "nereid",
  "accept-encoding": "identity",
};

/** A retry of the same request may work. */
export class TransientFailure extends Error {
  /** Retry-After in milliseconds. */
  readonly waitMs: number | undefined;

  constructor(message: string, options: ErrorOptions & { readonly waitMs?: number | undefined } = {}) {
    super(message, { cause: options.cause });
    this.name = "TransientFailure";
    this.waitMs = options.waitMs;
  }
}

export interface Exchange {
  /** Otherwise a redirect is a refusal. */
  readonly followsRedirects: boolean;
  /** Must not follow redirects itself. */
  readonly send: (url: URL, signal: AbortSignal) => Promise<Response>;
  /** Makes the error for a response other than 2xx. */
  readonly refusal: (response: Response, url: URL) => Promise<Error>;
  /** Makes the error for a broken exchange. */
  readonly failure: (error: unknown, url: URL) => unknown;
}

/** Returns 2xx responses only. @throws the errors of `refusal` and `failure`, and ToolError */
export async function openResponse(
  first: URL,
  patience: HttpTimeouts,
  { followsRedirects, send, refusal, failure }: Exchange,
): Promise<IncomingResponse> {
  const stall = new StallTimer(patience);
  let url = first;
  try {
    for (let hop = 0; hop <= MAX_REDIRECTS; hop += 1) {
      const response = await send(url, stall.signal);
      stall.alive();
      if (response.ok) return { response, alive: () => stall.alive(), done: () => stall.end() };
      const location = response.headers.get("location");
      if (!followsRedirects || response.status >= 400 || location === null) throw await refusal(response, url);
      await response.body?.cancel();
      url = nextAddress(url, location);
    }
    throw new ToolError(`${displayUrl(first)}: more than ${MAX_REDIRECTS} redirects`);
  } catch (error) {
    stall.end();
    throw failure(error, url);
  }
}

/** Describes a broken connection with its causes; errors that already have a meaning pass unchanged. */
export function brokenConnection(
  error: unknown,
  signal: AbortSignal,
  meaning: (reason: string, code: unknown) => Error,
): unknown {
  if (signal.aborted || error instanceof ToolError || error instanceof TransientFailure) return error;
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (!(cause instanceof Error)) return meaning(String(cause), undefined);
  return meaning(cause.message || cause.name, "code" in cause ? cause.code : undefined);
}

/** Without the query, which may hold secrets. */
export function displayUrl(url: URL): string {
  return `${url.origin}${url.pathname}`;
}

/** Never from HTTPS to HTTP. */
function nextAddress(from: URL, location: string): URL {
  const next = URL.canParse(location, from.href) ? new URL(location, from) : undefined;
  if (next !== undefined && (next.protocol === "https:" || next.protocol === from.protocol)) return next;
  throw new ToolError(`${displayUrl(from)} redirects to '${location}', which is not followed`);
}

/** Aborts an exchange after a period without data, or when the user interrupts. */
class StallTimer {
  readonly #controller: AbortController = new AbortController();
  readonly #patience: HttpTimeouts;
  readonly #onAbort = (): void => this.#controller.abort(this.#patience.signal.reason);
  #timer: NodeJS.Timeout;

  constructor(patience: HttpTimeouts) {
    this.#patience = patience;
    if (patience.signal.aborted) this.#onAbort();
    patience.signal.addEventListener("abort", this.#onAbort);
    this.#timer = setTimeout(() => this.#stall(), patience.stallMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  alive(): void {
    this.#timer.refresh();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#patience.signal.removeEventListener("abort", this.#onAbort);
  }

  #stall(): void {
    this.#controller.abort(new TransientFailure(`nothing came for ${this.#patience.stallMs / 1000} seconds`));
  }
}
