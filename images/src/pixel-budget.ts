/** How many decoded pixels are in memory at once: who would exceed it waits, first come first served. Knows no images. */

export class PixelBudget {
  readonly #max: number;
  readonly #waiting: { readonly count: number; readonly start: () => void }[] = [];
  #used = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Runs `work` when there is room for `count` pixels. More than there can ever be runs alone. */
  async run<T>(count: number, work: () => Promise<T>): Promise<T> {
    await this.#take(count);
    try {
      return await work();
    } finally {
      this.#used -= count;
      this.#startWaiting();
    }
  }

  #take(count: number): Promise<void> | undefined {
    if (this.#waiting.length === 0 && this.#fits(count)) {
      this.#used += count;
      return undefined;
    }
    return new Promise((resolve) => {
      this.#waiting.push({
        count,
        start: () => {
          this.#used += count;
          resolve();
        },
      });
    });
  }

  #fits(count: number): boolean {
    return this.#used === 0 || this.#used + count <= this.#max;
  }

  #startWaiting(): void {
    for (let first = this.#waiting[0]; first !== undefined && this.#fits(first.count); first = this.#waiting[0]) {
      this.#waiting.shift();
      first.start();
    }
  }
}
