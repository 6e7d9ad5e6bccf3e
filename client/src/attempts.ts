/**
 * Runs the attempts of a call: again after safe failures, or in parallel when the first is slow. `call-policy.ts`
 * decides. Source: gRPC proposal A6, "Retry Policy" and "Hedging Policy"
 * (https://github.com/grpc/proposal/blob/master/A6-client-retries.md).
 */
import { backoffMs, type HedgeOptions, isSafeToRetry, type RetryBudget, type RetryPolicy } from "./call-policy.ts";
import { ClientError } from "./client-error.ts";
import type { Deadline } from "./deadline.ts";

export interface AttemptOptions {
  readonly deadline: Deadline;
  readonly budget: RetryBudget;
  readonly retry: RetryPolicy;
  readonly hedge?: HedgeOptions | undefined;
  /** The call may run twice without harm. */
  readonly isIdempotent: boolean;
  /** The error to throw for anything thrown. */
  readonly explain: (error: unknown) => unknown;
}

/** One try; `signal` ends it. */
export type Attempt<T> = (signal: AbortSignal | undefined) => Promise<T>;

export async function runAttempts<T>(attempt: Attempt<T>, options: AttemptOptions): Promise<T> {
  const { deadline, budget, hedge, explain } = options;
  for (let count = 1; ; count++) {
    try {
      const result = await (hedge === undefined
        ? attempt(deadline.signal)
        : hedged(attempt, hedge, deadline.signal, budget));
      budget.succeeded();
      return result;
    } catch (thrown) {
      const error = explain(thrown);
      const waitMs = waitAfter(error, count, options);
      if (waitMs === undefined) throw error;
      await wait(waitMs, deadline.signal).catch((reason) => {
        throw explain(reason);
      });
    }
  }
}

/** Undefined: the call ends with the error. Takes from the budget. */
function waitAfter(error: unknown, count: number, options: AttemptOptions): number | undefined {
  const { deadline, budget, retry, isIdempotent } = options;
  if (!(error instanceof ClientError) || !isSafeToRetry(error, isIdempotent)) return undefined;
  budget.failed();
  if (count >= retry.maxAttempts || !budget.allowsRetry) return undefined;
  const waitMs = backoffMs(count, retry, error, Math.random());
  return waitMs < deadline.remainingMs ? waitMs : undefined;
}

/** The first success of several attempts that start one after another; the others are aborted. */
async function hedged<T>(
  attempt: Attempt<T>,
  { delayMs, maxAttempts = 2 }: HedgeOptions,
  outer: AbortSignal | undefined,
  budget: RetryBudget,
): Promise<T> {
  const started: AbortController[] = [];
  const abortAll = (): void => {
    for (const controller of started) controller.abort(outer?.reason);
  };
  const start = (): Promise<T> => {
    const controller = new AbortController();
    started.push(controller);
    if (outer?.aborted === true) controller.abort(outer.reason);
    return attempt(controller.signal);
  };
  const finished = new AbortController();
  outer?.addEventListener("abort", abortAll, { once: true });
  const later = async (index: number): Promise<T> => {
    await wait(delayMs * index, finished.signal);
    if (!budget.allowsRetry) throw new ClientError("network", "the retry budget allows no further request");
    return start();
  };
  const first = start();
  const others = Array.from({ length: maxAttempts - 1 }, (_, index) => later(index + 1));
  // A first request that fails alone ends the call at once: retries have their own rule.
  const failure = new Promise<never>((_, reject) =>
    first.catch((error) => {
      if (started.length === 1) reject(error);
    }),
  );
  try {
    return await Promise.race([Promise.any([first, ...others]), failure]);
  } catch (error) {
    throw error instanceof AggregateError ? error.errors[0] : error;
  } finally {
    finished.abort();
    abortAll();
    outer?.removeEventListener("abort", abortAll);
  }
}

/** @throws the signal's reason */
function wait(timeMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(signal.reason);
      return;
    }
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, timeMs);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
