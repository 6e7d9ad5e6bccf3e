/** Locks by name: operations on related models never overlap, and unrelated ones never wait. */

export class NamedLocks {
  readonly #tails = new Map<string, Promise<void>>();

  /** Runs `action` alone among all that share one of the names. Sorted acquisition keeps it free of deadlocks. */
  async run<T>(names: Iterable<string>, action: () => Promise<T>): Promise<T> {
    const releases: (() => void)[] = [];
    try {
      for (const name of [...new Set(names)].sort()) releases.push(await this.#acquire(name));
      return await action();
    } finally {
      for (const release of releases.reverse()) release();
    }
  }

  /** Resolves when nobody holds or waits for a lock. */
  async idle(): Promise<void> {
    while (this.#tails.size > 0) await Promise.all(this.#tails.values());
  }

  async #acquire(name: string): Promise<() => void> {
    const before = this.#tails.get(name) ?? Promise.resolve();
    let release = (): void => undefined;
    const tail = new Promise<void>((resolve) => {
      release = resolve;
    });
    const chained = before.then(() => tail);
    this.#tails.set(name, chained);
    await before;
    return () => {
      if (this.#tails.get(name) === chained) this.#tails.delete(name);
      release();
    };
  }
}

/** Runs actions with at most `limit` at a time, in order of submission; rejects with the first failure. */
export async function forEachLimited<T>(
  items: readonly T[],
  limit: number,
  action: (item: T) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let item = items[next++]; item !== undefined; item = items[next++]) await action(item);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
}
