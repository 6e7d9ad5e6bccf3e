/**
 * One HTTP exchange with a hub: the token goes to the hub only and never to where it redirects, silence has an end, statuses
 * become reasons that a user can act on. Knows nothing of repositories.
 */
import { type Arriving, MAX_REDIRECTS, PASSING_STATUSES, retryAfterMs } from "./http-answer.ts";
import { ToolError } from "./tool-error.ts";

export interface HubConnection {
  readonly endpoint: string;
  readonly token: string | undefined;
  readonly stallMs: number;
  readonly signal: AbortSignal;
}

/** The same request may work a moment later. */
export class PassingFailure extends Error {
  /** What the server asked to wait. */
  readonly waitMs: number | undefined;

  constructor(message: string, options: ErrorOptions & { readonly waitMs?: number | undefined } = {}) {
    super(message, { cause: options.cause });
    this.name = "PassingFailure";
    this.waitMs = options.waitMs;
  }
}

/** Redirects are followed. @throws PassingFailure, or ToolError for what will not change by itself */
export async function requestHub(
  connection: HubConnection,
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Arriving> {
  const stall = new StallTimer(connection);
  let current = new URL(url);
  try {
    for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
      const response = await fetch(current, {
        headers: {
          "user-agent": "nereid",
          "accept-encoding": "identity",
          ...headers,
          ...authorization(connection, current),
        },
        redirect: "manual",
        signal: stall.signal,
      });
      stall.alive();
      const location = response.headers.get("location");
      if (response.status < 300 || response.status >= 400 || location === null) {
        if (!response.ok) throw await statusError(response, url, connection);
        return { response, alive: () => stall.alive(), done: () => stall.end() };
      }
      await response.body?.cancel();
      current = nextAddress(current, location);
    }
    throw new ToolError(`${url}: more than ${MAX_REDIRECTS} redirects`);
  } catch (error) {
    stall.end();
    throw networkError(error, current, connection);
  }
}

/** Ends an exchange in which nothing arrives for a while, or that the user interrupts. */
export class StallTimer {
  readonly #controller: AbortController = new AbortController();
  readonly #connection: Pick<HubConnection, "stallMs" | "signal">;
  readonly #onAbort = (): void => this.#controller.abort(this.#connection.signal.reason);
  #timer: NodeJS.Timeout;

  constructor(connection: Pick<HubConnection, "stallMs" | "signal">) {
    this.#connection = connection;
    if (connection.signal.aborted) this.#onAbort();
    connection.signal.addEventListener("abort", this.#onAbort);
    this.#timer = setTimeout(() => this.#stall(), connection.stallMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  alive(): void {
    this.#timer.refresh();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#connection.signal.removeEventListener("abort", this.#onAbort);
  }

  #stall(): void {
    this.#controller.abort(new PassingFailure(`nothing came for ${this.#connection.stallMs / 1000} seconds`));
  }
}

function authorization({ endpoint, token }: HubConnection, url: URL): Record<string, string> {
  const isHub = url.origin === new URL(endpoint).origin;
  return isHub && token !== undefined ? { authorization: `Bearer ${token}` } : {};
}

function nextAddress(from: URL, location: string): URL {
  const next = URL.canParse(location, from.href) ? new URL(location, from) : undefined;
  const isSafe = next?.protocol === "https:" || next?.protocol === from.protocol;
  if (next === undefined || !isSafe)
    throw new ToolError(`${from.href} redirects to '${location}', which is not followed`);
  return next;
}

/** What a broken connection throws, as a failure that may pass. */
export function networkError(error: unknown, url: URL, { endpoint, signal }: HubConnection): unknown {
  if (signal.aborted || error instanceof ToolError || error instanceof PassingFailure) return error;
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const reason = cause instanceof Error ? cause.message || cause.name : String(cause);
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
  if (code === "ENOTFOUND" || code === "ECONNREFUSED") {
    const fix = "Check the network, name a mirror with HF_ENDPOINT, or use what is there with --offline";
    return new ToolError(`Cannot reach ${url.host || endpoint}: ${reason}`, { cause: error, fix });
  }
  return new PassingFailure(reason, { cause: error });
}

async function statusError(response: Response, url: string, { endpoint, token }: HubConnection): Promise<Error> {
  await response.body?.cancel();
  const { status } = response;
  const reason = response.headers.get("x-error-code") ?? "";
  if (PASSING_STATUSES.has(status)) {
    return new PassingFailure(`${url} answers ${status}`, { waitMs: retryAfterMs(response.headers) });
  }
  if (reason === "GatedRepo" || status === 403) {
    const fix = `Ask for access on the model's page at ${endpoint}, then set HF_TOKEN to a token of that account`;
    return new ToolError(`${url} is not open to ${token === undefined ? "visitors without a token" : "this token"}`, {
      fix,
    });
  }
  if (status === 401) {
    const fix =
      token === undefined ? "Check the name, or set HF_TOKEN if it is private" : "Check the name and the token";
    return new ToolError(`${url} answers 401: there is no such repository, or it is not open to this user`, { fix });
  }
  if (reason === "RevisionNotFound")
    return new ToolError(`${url}: there is no such revision`, { fix: "Check --revision" });
  if (status === 404) return new ToolError(`${url} answers 404: there is no such thing`, { fix: "Check the name" });
  return new ToolError(`${url} answers ${status}`);
}
