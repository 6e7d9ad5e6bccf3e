/**
 * The time limit of a call joined with the caller's AbortSignal (WHATWG DOM,
 * https://dom.spec.whatwg.org/#interface-AbortSignal), and which of the two ended it.
 */
import { ClientError } from "./client-error.ts";

export interface CallOptions {
  /** Aborts the call, which then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Limit of the whole call, including the last event of a stream. Default: none. */
  readonly timeoutMs?: number | undefined;
}

export class Deadline {
  readonly signal: AbortSignal | undefined;
  readonly #callerSignal: AbortSignal | undefined;
  readonly #timeout: AbortSignal | undefined;
  readonly #timeoutMs: number | undefined;

  constructor({ signal, timeoutMs }: CallOptions) {
    this.#callerSignal = signal;
    this.#timeoutMs = timeoutMs;
    this.#timeout = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs);
    const signals = [signal, this.#timeout].filter((one) => one !== undefined);
    this.signal = signals.length > 1 ? AbortSignal.any(signals) : signals[0];
  }

  /** The error to throw for an error of fetch or of its stream. */
  explain(error: unknown, where: string): unknown {
    if (error instanceof ClientError) return error;
    if (this.#callerSignal?.aborted === true) return this.#callerSignal.reason;
    if (this.#timeout?.aborted === true) {
      return new ClientError("timeout", `${where}: no answer within ${this.#timeoutMs} ms`, undefined, {
        cause: error,
      });
    }
    return new ClientError("network", `${where}: ${reasonOf(error)}`, undefined, { cause: error });
  }
}

/** Node's fetch says "fetch failed"; the reason is in the cause, or in the errors of each address tried. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  const inner = cause instanceof AggregateError ? cause.errors[0] : cause;
  return inner instanceof Error ? `${error.message}: ${inner.message}` : error.message;
}
