/**
 * The most recent ids, up to a limit: streams that were reset, whose late frames are ignored (RFC 9113, 5.1, "closed").
 */

const MAX_IDS = 1000;

export class RecentIds {
  readonly #ids = new Set<number>();

  add(id: number): void {
    const [oldest] = this.#ids;
    if (this.#ids.size >= MAX_IDS && oldest !== undefined) this.#ids.delete(oldest);
    this.#ids.add(id);
  }

  delete(id: number): void {
    this.#ids.delete(id);
  }

  has(id: number): boolean {
    return this.#ids.has(id);
  }
}
