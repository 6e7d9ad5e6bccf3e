/**
 * Which failures are tried again, when, and how often. Pure. Sources: gRPC retry design
 * (https://github.com/grpc/proposal/blob/master/A6-client-retries.md: exponential backoff, throttling); RFC 9110, 9.2.2
 * (idempotent methods).
 */
import type { ClientError } from "./client-error.ts";

export interface RetryOptions {
  /** Attempts of a call in all, the first included. Default: 3. */
  readonly maxAttempts?: number | undefined;
  /** Longest wait before the second attempt; each further one may wait twice as long. Default: 50. */
  readonly initialBackoffMs?: number | undefined;
  /** Default: 2000. */
  readonly maxBackoffMs?: number | undefined;
}

export interface HedgeOptions {
  /** A second request is sent when the first has no response after this time. The slower one is cancelled. */
  readonly delayMs: number;
  /** Requests of a call in all. Default: 2. */
  readonly maxAttempts?: number | undefined;
}

export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly initialBackoffMs: number;
  readonly maxBackoffMs: number;
}

export const DEFAULT_RETRY: RetryPolicy = { maxAttempts: 3, initialBackoffMs: 50, maxBackoffMs: 2000 };
const MULTIPLIER = 2;
/** The server refused the call without running it: RFC 6585, 4 and RFC 9110, 15.6.4; UNAVAILABLE of gRPC. */
const REFUSED_STATUS: ReadonlySet<number> = new Set([429, 503]);
const GRPC_UNAVAILABLE = 14;

/** @throws RangeError for numbers that cannot be */
export function retryPolicy(options: RetryOptions | false | undefined, defaults: RetryPolicy): RetryPolicy {
  if (options === false) return { ...defaults, maxAttempts: 1 };
  if (options === undefined) return defaults;
  const policy = {
    maxAttempts: options.maxAttempts ?? defaults.maxAttempts,
    initialBackoffMs: options.initialBackoffMs ?? defaults.initialBackoffMs,
    maxBackoffMs: options.maxBackoffMs ?? defaults.maxBackoffMs,
  };
  if (!(Number.isInteger(policy.maxAttempts) && policy.maxAttempts >= 1)) {
    throw new RangeError(`retry.maxAttempts: expected 1 or more, got ${policy.maxAttempts}`);
  }
  if (!(policy.initialBackoffMs >= 0 && policy.maxBackoffMs >= 0)) {
    throw new RangeError("retry: expected waits of 0 ms or more");
  }
  return policy;
}

/**
 * Failures after which a call may be sent again: the server has not seen it or has refused it. With `isIdempotent` also those
 * that leave open whether it ran.
 */
export function isSafeToRetry(error: ClientError, isIdempotent: boolean): boolean {
  if (error.isUnsent) return true;
  if (error.kind === "server") {
    const isRefused = REFUSED_STATUS.has(error.status ?? 0) || error.grpcStatus === GRPC_UNAVAILABLE;
    return isRefused || (isIdempotent && error.isRetryable);
  }
  return isIdempotent && error.kind === "network";
}

/** Wait before attempt `attempt` + 1, at random up to a limit that doubles. `random` is in [0, 1). */
export function backoffMs(attempt: number, policy: RetryPolicy, error: ClientError, random: number): number {
  if (error.retryAfterMs !== undefined) return error.retryAfterMs;
  const limit = Math.min(policy.initialBackoffMs * MULTIPLIER ** (attempt - 1), policy.maxBackoffMs);
  return limit * random;
}

/**
 * Keeps retries from multiplying the load of a server in trouble: each failed attempt takes a token, each success gives back a
 * part of one, and with half of the tokens gone nothing is tried again (A6, "Throttling Retry Attempts and Hedged RPCs").
 */
export class RetryBudget {
  readonly #maxTokens: number;
  readonly #tokenRatio: number;
  #tokens: number;

  constructor(maxTokens = 10, tokenRatio = 0.1) {
    this.#maxTokens = maxTokens;
    this.#tokenRatio = tokenRatio;
    this.#tokens = maxTokens;
  }

  /** Whether further attempts are allowed now. */
  get allowsRetry(): boolean {
    return this.#tokens > this.#maxTokens / 2;
  }

  succeeded(): void {
    this.#tokens = Math.min(this.#maxTokens, this.#tokens + this.#tokenRatio);
  }

  failed(): void {
    this.#tokens = Math.max(0, this.#tokens - 1);
  }
}
