/** Limits the decoded pixels in memory: further work waits in order of arrival. Knows no images. */

export class PixelBudget {
  readonly #max: number;
  readonly #waiting: { readonly count: number; readonly start: () => void }[] = [];
  #used = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Runs `work` when `count` pixels are available. Work above the total budget runs alone. */
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
