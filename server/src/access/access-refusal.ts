/** A request that its API key does not allow. Each protocol maps the reason to its own status. */

/** No or an unknown key; a model or a route beyond the key; a rate or a number at its limit; a budget that is used up. */
export type RefusalReason = "unauthenticated" | "forbidden" | "limited" | "exhausted";

export class AccessRefusal extends Error {
  readonly reason: RefusalReason;
  /** Milliseconds after which the same request may pass; undefined where waiting does not help. */
  readonly retryAfterMs: number | undefined;

  constructor(reason: RefusalReason, message: string, retryAfterMs?: number) {
    super(message);
    this.name = "AccessRefusal";
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
  }
}
