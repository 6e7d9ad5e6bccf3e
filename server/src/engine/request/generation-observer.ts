/** Observes requests as their results are delivered. Called for every token: must be quick and not throw. */
import type { FinishReason, Usage } from "./generate.ts";

export interface GenerationObserver {
  /** Milliseconds since the request came in. */
  firstToken(sinceArrivalMs: number): void;
  /** Milliseconds since the token before. */
  nextToken(sinceTokenMs: number): void;
  finished(reason: FinishReason, usage: Usage, sinceArrivalMs: number): void;
  failed(): void;
}

export const NO_OBSERVER: GenerationObserver = Object.freeze({
  firstToken: () => undefined,
  nextToken: () => undefined,
  finished: () => undefined,
  failed: () => undefined,
});
