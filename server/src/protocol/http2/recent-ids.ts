/** The latest numbers that were added, up to a limit. */

export class RecentIds {
  readonly #max: number;
  readonly #ids = new Set<number>();

  constructor(max: number) {
    this.#max = max;
  }

  add(id: number): void {
    const [oldest] = this.#ids;
    if (this.#ids.size >= this.#max && oldest !== undefined) this.#ids.delete(oldest);
    this.#ids.add(id);
  }

  has(id: number): boolean {
    return this.#ids.has(id);
  }
}
