/** Bounds how many tasks run at once; those that wait are served in order. Source: own design. */
export class Slots {
  #numFree: number;
  readonly #waiting: (() => void)[] = [];

  constructor(numSlots: number) {
    this.#numFree = numSlots;
  }

  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#numFree > 0) this.#numFree -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await task();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#numFree += 1;
      else next();
    }
  }
}
