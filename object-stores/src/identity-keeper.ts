/**
 * Caches credentials until they expire or are refused, then resolves them again. Knows no store. Source: RFC 6749,
 * section 5.1, for `expires_in`.
 */
import { RefusedRequest } from "./exchange.ts";

/** Renew this long before expiry: a request may take a while to be checked. */
const MARGIN_MS = 120_000;

export class IdentityKeeper<Identity extends { readonly endsAtMs: number }> {
  readonly #find: () => Promise<Identity>;
  #known: Identity | undefined;
  #finding: Promise<Identity> | undefined;

  constructor(find: () => Promise<Identity>) {
    this.#find = find;
  }

  /** Concurrent callers share one resolution. */
  async get(): Promise<Identity> {
    if (this.#known !== undefined && this.#known.endsAtMs - Date.now() > MARGIN_MS) return this.#known;
    this.#finding ??= this.#find().finally(() => {
      this.#finding = undefined;
    });
    this.#known = await this.#finding;
    return this.#known;
  }

  /**
   * Runs `action`; runs it again with new credentials when the store refuses them. `secret` decides whether two are
   * equal.
   */
  async use<T>(action: (identity: Identity) => Promise<T>, secret: (identity: Identity) => string): Promise<T> {
    const identity = await this.get();
    try {
      return await action(identity);
    } catch (error) {
      if (!(error instanceof RefusedRequest) || (error.status !== 401 && error.status !== 403)) throw error;
      this.refused(identity);
      const again = await this.get();
      if (secret(again) === secret(identity)) throw error;
      return action(again);
    }
  }

  /** The store refused these credentials: the next `get` resolves again. */
  refused(identity: Identity): void {
    if (this.#known === identity) this.#known = undefined;
  }
}
