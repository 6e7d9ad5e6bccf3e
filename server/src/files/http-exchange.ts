/**
 * One HTTP exchange with whoever has files: silence has an end, redirects are followed to safe addresses, what broke may work a
 * moment later. Knows no hub and no store: who asks says what is sent and what a refusal means.
 */
import { type IncomingResponse, MAX_REDIRECTS } from "./http-response.ts";
import { ToolError } from "./tool-error.ts";

export interface HttpTimeouts {
  /** How long a connection may be silent. */
  readonly stallMs: number;
  readonly signal: AbortSignal;
}

/** Of every request, besides what its sender adds: bytes come as they lie there. */
export const PLAIN_HEADERS: Readonly<Record<string, string>> = {
  "user-agent": "nereid",
  "accept-encoding": "identity",
};

/** The same request may work a moment later. */
export class TransientFailure extends Error {
  /** What the server asked to wait. */
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
  /** Must leave redirects to the caller. */
  readonly send: (url: URL, signal: AbortSignal) => Promise<Response>;
  /** What an answer other than 2xx means. */
  readonly refusal: (response: Response, url: URL) => Promise<Error>;
  /** What it means that an exchange broke. */
  readonly failure: (error: unknown, url: URL) => unknown;
}

/** Answers of 2xx only. @throws what `refusal` and `failure` make, and ToolError */
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
    throw new ToolError(`${placeOf(first)}: more than ${MAX_REDIRECTS} redirects`);
  } catch (error) {
    stall.end();
    throw failure(error, url);
  }
}

/** What a broken connection throws, with what lies beneath it; what has a meaning already stays what it is. */
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

/** Without its query: that may hold secrets. */
export function placeOf(url: URL): string {
  return `${url.origin}${url.pathname}`;
}

/** Never from a protected connection to an open one. */
function nextAddress(from: URL, location: string): URL {
  const next = URL.canParse(location, from.href) ? new URL(location, from) : undefined;
  if (next !== undefined && (next.protocol === "https:" || next.protocol === from.protocol)) return next;
  throw new ToolError(`${placeOf(from)} redirects to '${location}', which is not followed`);
}

/** Ends an exchange in which nothing arrives for a while, or that the user interrupts. */
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
