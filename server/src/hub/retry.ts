/** Retries transient failures with exponential backoff and a limit, which progress resets. */
import { setTimeout as sleep } from "node:timers/promises";
import { backoffMs } from "../core/backoff.ts";
import { TransientFailure } from "../files/http-exchange.ts";
import { ToolError } from "../files/tool-error.ts";

export interface RetryOptions {
  readonly signal: AbortSignal;
  /** First pause in ms; each next one is twice as long, up to 30 s. */
  readonly firstPauseMs: number;
  /** Increases with progress; a run with progress is not given up. */
  readonly progress: () => number;
  readonly onRetry: (reason: string, pauseMs: number) => void;
}

const MAX_FAILURES = 6;
const MAX_PAUSE_MS = 30_000;
/** Fewer bytes between two failures are no progress. */
const MIN_PROGRESS = 1 << 20;

export async function withRetries<T>(what: string, options: RetryOptions, action: () => Promise<T>): Promise<T> {
  let failures = 0;
  let before = options.progress();
  for (;;) {
    try {
      return await action();
    } catch (error) {
      if (options.signal.aborted || !(error instanceof TransientFailure)) throw error;
      const now = options.progress();
      failures = now - before >= MIN_PROGRESS ? 1 : failures + 1;
      before = now;
      if (failures >= MAX_FAILURES) throw givenUp(what, error, failures);
      const pauseMs = error.waitMs ?? backoffMs(failures, { firstMs: options.firstPauseMs, maxMs: MAX_PAUSE_MS });
      options.onRetry(`${what}: ${error.message}`, pauseMs);
      await sleep(pauseMs, undefined, { signal: options.signal });
    }
  }
}

function givenUp(what: string, error: TransientFailure, failures: number): ToolError {
  return new ToolError(`${what}: ${error.message}; given up after ${failures} attempts`, {
    cause: error,
    fix: "Run the command again: what has arrived is kept",
  });
}
