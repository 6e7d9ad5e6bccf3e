/**
 * The time limit of a call joined with the caller's AbortSignal (WHATWG DOM,
 * https://dom.spec.whatwg.org/#interface-AbortSignal), and which of the two ended it. Its creator ends it.
 */
import { ClientError } from "./client-error.ts";
import type { ErrorContext } from "./error-details.ts";

/** Codes of failures before a connection exists, so that no server has seen the request (Node.js, "Common system errors"). */
const UNSENT_CODES: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
  "ConnectionRefused", // Bun
  "ENOENT", // a unix socket that does not exist
]);

export interface Limits {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

export class Deadline {
  /** Aborted by the caller's signal or the limit; undefined when the call has neither. */
  readonly signal: AbortSignal | undefined;
  readonly #callerSignal: AbortSignal | undefined;
  readonly #timeoutMs: number | undefined;
  readonly #endsAt: number;
  #isExpired = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #forward: (() => void) | undefined;

  constructor({ signal, timeoutMs }: Limits) {
    this.#callerSignal = signal;
    this.#timeoutMs = timeoutMs;
    this.#endsAt = timeoutMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + timeoutMs;
    this.signal = timeoutMs === undefined ? signal : this.#limit(timeoutMs);
  }

  /** Infinity without a limit. */
  get remainingMs(): number {
    return this.#endsAt - performance.now();
  }

  /** The error to throw for an error of a connection or of its stream. */
  explain(error: unknown, where: string, context: ErrorContext = {}): unknown {
    if (error instanceof ClientError) return error;
    if (this.#callerSignal?.aborted === true) return this.#callerSignal.reason;
    if (this.#isExpired) {
      const message = `${where}: no answer within ${this.#timeoutMs} ms`;
      return new ClientError("timeout", message, { ...context, cause: error });
    }
    const isUnsent = isUnsentFailure(error);
    return new ClientError("network", `${where}: ${reasonOf(error)}`, { ...context, isUnsent, cause: error });
  }

  /** The call is over. Not `Symbol.dispose`, which browsers may lack. */
  end(): void {
    clearTimeout(this.#timer);
    if (this.#forward !== undefined) this.#callerSignal?.removeEventListener("abort", this.#forward);
  }

  #limit(timeoutMs: number): AbortSignal {
    const controller = new AbortController();
    this.#timer = setTimeout(() => {
      this.#isExpired = true;
      controller.abort();
    }, timeoutMs);
    this.#forward = () => controller.abort(this.#callerSignal?.reason);
    if (this.#callerSignal?.aborted === true) this.#forward();
    this.#callerSignal?.addEventListener("abort", this.#forward, { once: true });
    return controller.signal;
  }
}

/** Errors of a call that no server can have seen: the names and addresses that were tried refused it. */
export function isUnsentFailure(error: unknown): boolean {
  const inner = innermost(error);
  const { code } = inner as { readonly code?: unknown };
  return typeof code === "string" && UNSENT_CODES.has(code);
}

/** Node's fetch says "fetch failed"; the reason is in the cause, or in the errors of each address tried. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const inner = innermost(error);
  if (inner === error || !(inner instanceof Error)) return error.message || error.name;
  return `${error.message || error.name}: ${inner.message}`;
}

function innermost(error: unknown): object {
  if (!(error instanceof Error)) return {};
  if (error instanceof AggregateError && error.errors.length > 0) return innermost(error.errors[0]);
  return error.cause instanceof Error ? innermost(error.cause) : error;
}
