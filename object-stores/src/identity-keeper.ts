/** Holds who asks until that ends or is refused, and has it looked up again then. Knows no store. */
import { RefusedRequest } from "./exchange.ts";

/** Fetched again this long before the end: a request may take a while to be checked. */
const MARGIN_MS = 120_000;

export class IdentityKeeper<Identity extends { readonly endsAtMs: number }> {
  readonly #find: () => Promise<Identity>;
  #known: Identity | undefined;
  #finding: Promise<Identity> | undefined;

  constructor(find: () => Promise<Identity>) {
    this.#find = find;
  }

  /** Looked up once for all who ask at the same time. */
  async get(): Promise<Identity> {
    if (this.#known !== undefined && this.#known.endsAtMs - Date.now() > MARGIN_MS) return this.#known;
    this.#finding ??= this.#find().finally(() => {
      this.#finding = undefined;
    });
    this.#known = await this.#finding;
    return this.#known;
  }

  /** `action`, and once more with an identity looked up anew when the store refuses it. `secret`: what makes two of them the same. */
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

  /** The store refused this one: the next `get` looks again. */
  refused(identity: Identity): void {
    if (this.#known === identity) this.#known = undefined;
  }
}
