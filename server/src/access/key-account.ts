/** The state of one key: its buckets, open requests and used tokens. Outlives changes of the key file. */
import { AccessRefusal } from "./access-refusal.ts";
import type { KeyRecord } from "./key-record.ts";
import { TokenBucket } from "./token-bucket.ts";

/** Waits for a place are short; clients that take the hint come back soon. */
const BUSY_RETRY_MS = 1000;

/** For the rate headers of a response; undefined: no such limit. */
export interface RateState {
  readonly limit: number;
  readonly remaining: number;
  /** Milliseconds until the whole limit is available again. */
  readonly resetMs: number;
}

export class KeyAccount {
  record: KeyRecord;
  #requests: TokenBucket | undefined;
  #tokens: TokenBucket | undefined;
  #numOpen = 0;
  #usedTokens: number;
  /** Tokens that open requests may still use, at most. */
  #reservedTokens = 0;

  /** @param usedTokens of earlier processes, from the ledger */
  constructor(record: KeyRecord, nowMs: number, usedTokens: number) {
    this.record = record;
    this.#usedTokens = usedTokens;
    this.#requests = bucketFor(undefined, record.requestsPerMinute, nowMs);
    this.#tokens = bucketFor(undefined, record.tokensPerMinute, nowMs);
  }

  get usedTokens(): number {
    return this.#usedTokens;
  }

  get numOpen(): number {
    return this.#numOpen;
  }

  update(record: KeyRecord, nowMs: number): void {
    this.#requests = bucketFor(this.#requests, record.requestsPerMinute, nowMs);
    this.#tokens = bucketFor(this.#tokens, record.tokensPerMinute, nowMs);
    this.record = record;
  }

  /** Takes a place and a request. @throws AccessRefusal limited, with nothing taken */
  open(nowMs: number): void {
    this.#expectPlace();
    const waitMs = this.#requests?.waitMs(1, nowMs) ?? 0;
    if (waitMs > 0) throw this.#rateRefusal("requests", this.#requests, 1, nowMs, waitMs);
    this.#requests?.take(1, nowMs);
    this.#numOpen += 1;
  }

  close(): void {
    this.#numOpen -= 1;
  }

  /** Takes up to `maxTokens`. @throws AccessRefusal limited or exhausted, with nothing taken */
  reserve(maxTokens: number, nowMs: number): void {
    this.#expectBudget(maxTokens);
    const waitMs = this.#tokens?.waitMs(maxTokens, nowMs) ?? 0;
    if (waitMs > 0) throw this.#rateRefusal("tokens", this.#tokens, maxTokens, nowMs, waitMs);
    this.#tokens?.take(maxTokens, nowMs);
    this.#reservedTokens += maxTokens;
  }

  /** Ends what `reserve` began: tokens that were not used return to the rate. */
  settle(maxTokens: number, usedTokens: number, nowMs: number): void {
    this.#reservedTokens -= maxTokens;
    this.#usedTokens += usedTokens;
    this.#tokens?.take(usedTokens - maxTokens, nowMs);
  }

  rates(nowMs: number): { readonly requests: RateState | undefined; readonly tokens: RateState | undefined } {
    return { requests: rateState(this.#requests, nowMs), tokens: rateState(this.#tokens, nowMs) };
  }

  #expectPlace(): void {
    const { name, concurrentRequests } = this.record;
    if (concurrentRequests === undefined || this.#numOpen < concurrentRequests) return;
    const text = `Too many requests of key '${name}' at once: limit ${concurrentRequests}, open ${this.#numOpen}`;
    throw new AccessRefusal("limited", text, BUSY_RETRY_MS);
  }

  #expectBudget(maxTokens: number): void {
    const { name, tokenBudget } = this.record;
    if (tokenBudget === undefined) return;
    const left = tokenBudget - this.#usedTokens - this.#reservedTokens;
    if (maxTokens <= left) return;
    const text = `The token budget of key '${name}' does not suffice: budget ${tokenBudget}, left ${Math.max(left, 0)}, requested up to ${maxTokens}`;
    throw new AccessRefusal("exhausted", text);
  }

  #rateRefusal(
    unit: string,
    bucket: TokenBucket | undefined,
    cost: number,
    nowMs: number,
    waitMs: number,
  ): AccessRefusal {
    const left = Math.max(Math.floor(bucket?.levelAt(nowMs) ?? 0), 0);
    const limits = `limit ${bucket?.perMinute}, left ${left}, requested ${cost}`;
    const text = `Rate limit reached for key '${this.record.name}' on ${unit} per minute: ${limits}. Try again in ${waitMs} ms`;
    return new AccessRefusal("limited", text, waitMs);
  }
}

function bucketFor(
  old: TokenBucket | undefined,
  perMinute: number | undefined,
  nowMs: number,
): TokenBucket | undefined {
  if (perMinute === undefined) return undefined;
  return old === undefined ? new TokenBucket(perMinute, nowMs) : old.withRate(perMinute, nowMs);
}

function rateState(bucket: TokenBucket | undefined, nowMs: number): RateState | undefined {
  if (bucket === undefined) return undefined;
  const remaining = Math.max(Math.floor(bucket.levelAt(nowMs)), 0);
  return { limit: bucket.perMinute, remaining, resetMs: bucket.resetMs(nowMs) };
}
