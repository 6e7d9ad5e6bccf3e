/**
 * The API key of a call: who asks, what the key allows, and what the call uses of it. HTTP headers and gRPC metadata
 * carry the key alike.
 * Sources: OpenAI's API reference, "Authentication", "Rate limits"; RFC 6750, 2.1 for the header.
 */
import { AccessRefusal, type RefusalReason } from "../access/access-refusal.ts";
import type { KeyAccount } from "../access/key-account.ts";
import type { Admission, KeyGate, TokenLease } from "../access/key-gate.ts";
import { rateHeaders, retryAfter } from "../access/rate-headers.ts";
import type { TokenCounter } from "../core/infer-request.ts";
import type { RestrictedApi } from "../core/restricted-api.ts";
import type { TextUsage, TokenMeter } from "../text-model/text-request.ts";

/** Status of a ledger line whose client left before the answer. */
export const CLIENT_GONE = 499;
const MIN_ERROR_STATUS = 400;
const NOTHING_USED = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };
const BEARER = /^Bearer +/i;

/** Value of a header by its lower-case name. */
export type ReadHeader = (name: string) => string | undefined;

/** One call with its key. */
export class CallAccess implements TokenMeter, TokenCounter {
  readonly #gate: KeyGate;
  readonly #key: string | undefined;
  readonly #account: KeyAccount;
  readonly #route: string;
  #admission: Admission | undefined;
  readonly #leases: TokenLease[] = [];
  #promptTokens = 0;
  #outputTokens = 0;

  /** @throws AccessRefusal unauthenticated */
  constructor(gate: KeyGate, key: string | undefined, route: string, account: KeyAccount = gate.identify(key)) {
    this.#gate = gate;
    this.#key = key;
    this.#account = account;
    this.#route = route;
  }

  /** The next request of the same caller, whose key may have been taken away. @throws AccessRefusal unauthenticated */
  next(): CallAccess {
    return new CallAccess(this.#gate, this.#key, this.#route);
  }

  /** Name of the key, to whom everything belongs that the call leaves behind. */
  get owner(): string {
    return this.#account.record.name;
  }

  get priority(): number | undefined {
    return this.#account.record.priority;
  }

  /** Every route asks first. "" for a route that names no model. @throws AccessRefusal forbidden */
  expect(api: RestrictedApi, model: string): void {
    this.#gate.expectApi(this.#account, api);
    this.#gate.expectModel(this.#account, model);
  }

  /** `shown`: the model as the caller named it. @throws AccessRefusal forbidden */
  expectModel(model: string, shown: string): void {
    this.#gate.expectModel(this.#account, model, shown);
  }

  /** Whether the key's list of models has this one: lists show it no other. */
  mayUse(model: string): boolean {
    return this.#gate.mayUse(this.#account, model);
  }

  /** Before a request of the model begins. @throws AccessRefusal */
  admit(model: string): void {
    if (this.#admission !== undefined) this.#gate.expectModel(this.#account, model);
    this.#admission ??= this.#gate.admit(this.#account, { model, route: this.#route });
  }

  reserve(maxTokens: number): { settle(usage: TextUsage): void } {
    const lease = this.#admission?.reserve(maxTokens);
    if (lease !== undefined) this.#leases.push(lease);
    return {
      settle: ({ promptTokens = 0, outputTokens = 0, cachedTokens }) =>
        lease?.settle({ promptTokens, completionTokens: outputTokens, cachedTokens }),
    };
  }

  /** Tokens that an engine used for the call. */
  count(promptTokens: number, outputTokens: number): void {
    this.#promptTokens += promptTokens;
    this.#outputTokens += outputTokens;
  }

  get counted(): TextUsage {
    return { promptTokens: this.#promptTokens, outputTokens: this.#outputTokens, cachedTokens: 0 };
  }

  /** The response is decided; its stream may go on. Gives the headers that tell the rates. */
  answered(status: number): readonly string[] {
    const headers = rateHeaders(this.#gate.rates(this.#account)).flat();
    // An error leaves no generation to be read; a stream that goes on settles its generations itself.
    if (status >= MIN_ERROR_STATUS) for (const lease of this.#leases) lease.settle(NOTHING_USED);
    this.#admission?.answered(status);
    return headers;
  }
}

/** OpenAI's clients send a bearer token, Anthropic's `x-api-key`, Azure's `api-key`. */
export function keyOf(header: ReadHeader): string | undefined {
  return header("authorization")?.replace(BEARER, "").trim() ?? header("x-api-key") ?? header("api-key");
}

/** HTTP statuses of refusals; RFC 9110, 15.5.2 and 15.5.4; RFC 6585, 4. */
export const REFUSAL_STATUS: Readonly<Record<RefusalReason, number>> = {
  unauthenticated: 401,
  forbidden: 403,
  limited: 429,
  exhausted: 429,
};

/** Headers of a refusal. RFC 9110, 10.2.3 and 11.6.1. */
export function refusalHeaders(thrown: unknown): readonly string[] {
  if (!(thrown instanceof AccessRefusal)) return [];
  if (thrown.reason === "unauthenticated") return ["www-authenticate", "Bearer"];
  return thrown.retryAfterMs === undefined ? [] : ["retry-after", retryAfter(thrown.retryAfterMs)];
}

/** Rows of a list of models: those that the caller's key may use. */
export function ownRows<Row extends { readonly name: string }>(
  rows: readonly Row[],
  access: CallAccess | undefined,
): readonly Row[] {
  return access === undefined ? rows : rows.filter(({ name }) => access.mayUse(name));
}
