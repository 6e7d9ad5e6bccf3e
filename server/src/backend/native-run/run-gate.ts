/** Bounds how many runs sit in libuv's thread pool: files and host names are looked up there too and must find a thread. */

/** Threads that runs leave free. */
const SPARE_THREADS = 2;
const DEFAULT_POOL_THREADS = 4;

/** Runs that may be in a pool of the size that the environment asks for. */
export function runsInPool(poolSize: string | undefined): number {
  const threads = Number.parseInt(poolSize ?? "", 10);
  return Math.max(1, (threads > 0 ? threads : DEFAULT_POOL_THREADS) - SPARE_THREADS);
}

export class RunGate {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(places: number) {
    this.#free = places;
  }

  /** Resolves when a slot is free, in order of arrival; undefined = at once. */
  enter(): Promise<void> | undefined {
    if (this.#free > 0) {
      this.#free--;
      return undefined;
    }
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free++;
    else next();
  }
}
