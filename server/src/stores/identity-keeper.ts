/** Holds who asks until that ends or is refused, and has it looked up again then. Knows no store. */

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

  /** The store refused this one: the next `get` looks again. */
  refused(identity: Identity): void {
    if (this.#known === identity) this.#known = undefined;
  }
}
