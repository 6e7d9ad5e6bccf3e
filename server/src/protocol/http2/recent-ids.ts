/** The latest numbers that were added, up to a limit. */

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
