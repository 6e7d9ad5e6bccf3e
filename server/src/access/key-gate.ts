/** Access control: finds the key of a request, checks its model, and counts its use. Knows no protocol and no file. */
import { createHash } from "node:crypto";
import { AccessRefusal } from "./access-refusal.ts";
import { KeyAccount, type RateState } from "./key-account.ts";
import type { KeyRecord } from "./key-record.ts";

export interface AccessClock {
  /** Monotonic milliseconds. */
  nowMs(): number;
  /** Milliseconds since 1970. */
  dateMs(): number;
}

const SYSTEM_CLOCK: AccessClock = { nowMs: () => performance.now(), dateMs: () => Date.now() };

export interface TokenUse {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
}

export interface FinishedUse extends TokenUse {
  readonly key: string;
  readonly model: string;
  /** As OpenAPI names the operation: "POST /v1/chat/completions". */
  readonly route: string;
  /** HTTP status, or that which HTTP would have. */
  readonly status: number;
  readonly durationMs: number;
}

/** One admitted request. */
export interface Admission {
  readonly keyName: string;
  readonly priority: number | undefined;
  rates(): { readonly requests: RateState | undefined; readonly tokens: RateState | undefined };
  /** Once, at the end of the request, failed or not; later calls do nothing. */
  finish(use: TokenUse, status: number): void;
}

export interface AdmissionRequest {
  /** "" for a request that names no model. */
  readonly model: string;
  readonly route: string;
  /** Upper bound of prompt and completion tokens; 0 where nothing is generated. */
  readonly maxTokens: number;
}

export class KeyGate {
  #accounts = new Map<string, KeyAccount>();
  readonly #byName = new Map<string, KeyAccount>();
  readonly #clock: AccessClock;
  readonly #usedTokens: ReadonlyMap<string, number>;
  readonly #onFinish: (use: FinishedUse) => void;

  constructor(parts: {
    readonly onFinish: (use: FinishedUse) => void;
    /** Tokens used in earlier processes, by name of the key. */
    readonly usedTokens?: ReadonlyMap<string, number>;
    readonly clock?: AccessClock;
  }) {
    this.#onFinish = parts.onFinish;
    this.#usedTokens = parts.usedTokens ?? new Map();
    this.#clock = parts.clock ?? SYSTEM_CLOCK;
  }

  /** Replaces the keys; a key that stays, by name, keeps its state. Requests in flight end as they were admitted. */
  update(records: readonly KeyRecord[]): void {
    const nowMs = this.#clock.nowMs();
    const accounts = new Map<string, KeyAccount>();
    for (const record of records) {
      let account = this.#byName.get(record.name);
      if (account === undefined) {
        account = new KeyAccount(record, nowMs, this.#usedTokens.get(record.name) ?? 0);
        this.#byName.set(record.name, account);
      } else account.update(record, nowMs);
      accounts.set(record.sha256, account);
    }
    this.#accounts = accounts;
  }

  accounts(): Iterable<KeyAccount> {
    return this.#accounts.values();
  }

  /**
   * The account of a key as the client sent it. The table is searched by SHA-256, whose bytes a client cannot choose, so that
   * the time of the search reveals nothing of other keys. @throws AccessRefusal unauthenticated
   */
  identify(key: string | undefined): KeyAccount {
    if (key === undefined || key === "") {
      throw new AccessRefusal("unauthenticated", "No API key: send one as Authorization: Bearer KEY or X-API-Key: KEY");
    }
    const account = this.#accounts.get(createHash("sha256").update(key).digest("hex"));
    if (account === undefined) throw new AccessRefusal("unauthenticated", "Incorrect API key provided");
    const { name, expiresMs } = account.record;
    if (expiresMs !== undefined && this.#clock.dateMs() >= expiresMs) {
      throw new AccessRefusal("unauthenticated", `API key '${name}' expired on ${new Date(expiresMs).toISOString()}`);
    }
    return account;
  }

  /** @throws AccessRefusal forbidden, limited or exhausted */
  admit(account: KeyAccount, { model, route, maxTokens }: AdmissionRequest): Admission {
    this.expectModel(account, model);
    const startMs = this.#clock.nowMs();
    account.open(maxTokens, startMs);
    let isOpen = true;
    const { name: keyName, priority } = account.record;
    return {
      keyName,
      priority,
      rates: () => account.rates(this.#clock.nowMs()),
      finish: (use, status) => {
        if (!isOpen) return;
        isOpen = false;
        const nowMs = this.#clock.nowMs();
        account.close(maxTokens, use.promptTokens + use.completionTokens, nowMs);
        this.#onFinish({ ...use, key: keyName, model, route, status, durationMs: nowMs - startMs });
      },
    };
  }

  /** "" passes: the request names no model. @throws AccessRefusal forbidden */
  expectModel({ record }: KeyAccount, model: string): void {
    if (model === "" || record.models.some((pattern) => matches(pattern, model))) return;
    throw new AccessRefusal("forbidden", `API key '${record.name}' does not have access to model '${model}'`);
  }

  /** @throws AccessRefusal forbidden */
  expectAdmin({ record }: KeyAccount, what: string): void {
    if (!record.isAdmin)
      throw new AccessRefusal("forbidden", `API key '${record.name}' may not ${what}: it is no admin key`);
  }
}

/** `*` matches any run of characters. Linear: each part is searched once, from where the one before ended. */
function matches(pattern: string, name: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  const last = rest.pop();
  if (last === undefined) return pattern === name;
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}
