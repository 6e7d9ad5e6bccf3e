/** Access control: finds the key of a request, checks its model, and counts its use. Knows no protocol and no file. */
import { createHash } from "node:crypto";
import type { RestrictedApi } from "../core/restricted-api.ts";
import { AccessRefusal } from "./access-refusal.ts";
import { KeyAccount } from "./key-account.ts";
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

/** Tokens that one generation may use, and has used once it is settled. */
export interface TokenLease {
  /** Once, at the end of the generation, failed or not; later calls do nothing. */
  settle(use: TokenUse): void;
}

/** One admitted request. */
export interface Admission {
  /** @param maxTokens upper bound of prompt and completion. @throws AccessRefusal limited or exhausted */
  reserve(maxTokens: number): TokenLease;
  /** Once its response is decided; the request ends when its leases are settled too. Later calls do nothing. */
  answered(status: number): void;
}

export interface AdmissionRequest {
  /** "" for a request that names no model. */
  readonly model: string;
  readonly route: string;
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
    this.#expectUnexpired(account);
    return account;
  }

  /** The account of work that a key left behind, by the key's name. @throws AccessRefusal unauthenticated when it is gone */
  accountOf(name: string): KeyAccount {
    const account = this.#byName.get(name);
    if (account === undefined || this.#accounts.get(account.record.sha256) !== account) {
      throw new AccessRefusal("unauthenticated", `API key '${name}' was removed`);
    }
    this.#expectUnexpired(account);
    return account;
  }

  #expectUnexpired({ record: { name, expiresMs } }: KeyAccount): void {
    if (expiresMs !== undefined && this.#clock.dateMs() >= expiresMs) {
      throw new AccessRefusal("unauthenticated", `API key '${name}' expired on ${new Date(expiresMs).toISOString()}`);
    }
  }

  rates(account: KeyAccount): ReturnType<KeyAccount["rates"]> {
    return account.rates(this.#clock.nowMs());
  }

  /** @throws AccessRefusal forbidden or limited */
  admit(account: KeyAccount, request: AdmissionRequest): Admission {
    this.expectModel(account, request.model);
    account.open(this.#clock.nowMs());
    return new OpenRequest(account, request, this.#clock, this.#onFinish);
  }

  /** @throws AccessRefusal forbidden */
  expectApi({ record }: KeyAccount, api: RestrictedApi): void {
    if (record.apis.includes(api)) return;
    throw new AccessRefusal("forbidden", `API key '${record.name}' does not have access to '${api}'`);
  }

  mayUse({ record }: KeyAccount, model: string): boolean {
    return record.models.some((pattern) => matches(pattern, model));
  }

  /** "" passes: the request names no model. @throws AccessRefusal forbidden */
  expectModel(account: KeyAccount, model: string, shown: string = model): void {
    if (model === "" || this.mayUse(account, model)) return;
    throw new AccessRefusal("forbidden", `API key '${account.record.name}' does not have access to model '${shown}'`);
  }
}

const NOTHING_USED: TokenUse = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };

class OpenRequest implements Admission {
  readonly #account: KeyAccount;
  readonly #request: AdmissionRequest;
  readonly #clock: AccessClock;
  readonly #onFinish: (use: FinishedUse) => void;
  readonly #startMs: number;
  #use = NOTHING_USED;
  #numLeases = 0;
  #status: number | undefined;
  #isFinished = false;

  constructor(
    account: KeyAccount,
    request: AdmissionRequest,
    clock: AccessClock,
    onFinish: (use: FinishedUse) => void,
  ) {
    this.#account = account;
    this.#request = request;
    this.#clock = clock;
    this.#onFinish = onFinish;
    this.#startMs = clock.nowMs();
  }

  reserve(maxTokens: number): TokenLease {
    this.#account.reserve(maxTokens, this.#clock.nowMs());
    this.#numLeases += 1;
    let isOpen = true;
    return {
      settle: (use) => {
        if (!isOpen) return;
        isOpen = false;
        this.#numLeases -= 1;
        this.#account.settle(maxTokens, use.promptTokens + use.completionTokens, this.#clock.nowMs());
        this.#use = sum(this.#use, use);
        this.#finishWhenDone();
      },
    };
  }

  answered(status: number): void {
    this.#status ??= status;
    this.#finishWhenDone();
  }

  #finishWhenDone(): void {
    if (this.#isFinished || this.#status === undefined || this.#numLeases > 0) return;
    this.#isFinished = true;
    this.#account.close();
    const durationMs = this.#clock.nowMs() - this.#startMs;
    const { model, route } = this.#request;
    this.#onFinish({ ...this.#use, key: this.#account.record.name, model, route, status: this.#status, durationMs });
  }
}

function sum(a: TokenUse, b: TokenUse): TokenUse {
  return {
    promptTokens: a.promptTokens + b.promptTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
    completionTokens: a.completionTokens + b.completionTokens,
  };
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
