/**
 * The API key of a call: who asks, what the key allows, and what the call uses of it.
 * Sources: OpenAI's API reference, "Authentication", "Rate limits"; RFC 6750, 2.1 for the header.
 */
import { AccessRefusal } from "../../access/access-refusal.ts";
import type { KeyAccount } from "../../access/key-account.ts";
import type { Admission, KeyGate, TokenLease } from "../../access/key-gate.ts";
import { rateHeaders, retryAfter } from "../../access/rate-headers.ts";
import type { TextUsage, TokenMeter } from "../../text-model/text-request.ts";
import type { HttpCall } from "../http/http-call.ts";
import { ApiError, type ApiErrorParts } from "./api-error.ts";

const MIN_ERROR_STATUS = 400;
const NOTHING_USED = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };
const BEARER = /^Bearer +/i;

/** One call with its key. */
export class CallAccess implements TokenMeter {
  readonly #gate: KeyGate;
  readonly #account: KeyAccount;
  readonly #route: string;
  #admission: Admission | undefined;
  readonly #leases: TokenLease[] = [];

  /** @throws AccessRefusal unauthenticated */
  constructor(gate: KeyGate, call: HttpCall, route: string) {
    this.#gate = gate;
    this.#account = gate.identify(keyOf(call));
    this.#route = route;
  }

  /** Name of the key, to whom everything belongs that the call leaves behind. */
  get owner(): string {
    return this.#account.record.name;
  }

  get priority(): number | undefined {
    return this.#account.record.priority;
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

  /** The response is decided; its stream may go on. Gives the headers that tell the rates. */
  answered(status: number): readonly string[] {
    const headers = rateHeaders(this.#gate.rates(this.#account)).flat();
    // An error leaves no generation to be read; a stream that goes on settles its generations itself.
    if (status >= MIN_ERROR_STATUS) for (const lease of this.#leases) lease.settle(NOTHING_USED);
    this.#admission?.answered(status);
    return headers;
  }
}

/** OpenAI's clients send a bearer token, Anthropic's `x-api-key`. */
function keyOf(call: HttpCall): string | undefined {
  return call.header("authorization")?.replace(BEARER, "").trim() ?? call.header("x-api-key") ?? call.header("api-key");
}

const PARTS: Readonly<Record<AccessRefusal["reason"], Pick<ApiErrorParts, "status" | "type" | "code">>> = {
  unauthenticated: { status: 401, type: "authentication_error", code: "invalid_api_key" },
  forbidden: { status: 403, type: "permission_error", code: "model_access_denied" },
  limited: { status: 429, type: "rate_limit_error", code: "rate_limit_exceeded" },
  exhausted: { status: 429, type: "rate_limit_error", code: "insufficient_quota" },
};

/** Refusals as errors of an API; everything else as it is. */
export function accessError(thrown: unknown): unknown {
  if (!(thrown instanceof AccessRefusal)) return thrown;
  return new ApiError({ ...PARTS[thrown.reason], param: null, message: thrown.message });
}

/** Headers of a refusal. RFC 9110, 10.2.3 and 11.6.1. */
export function refusalHeaders(thrown: unknown): readonly string[] {
  if (!(thrown instanceof AccessRefusal)) return [];
  if (thrown.reason === "unauthenticated") return ["www-authenticate", "Bearer"];
  return thrown.retryAfterMs === undefined ? [] : ["retry-after", retryAfter(thrown.retryAfterMs)];
}
