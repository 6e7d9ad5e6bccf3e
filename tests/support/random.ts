/** Random numbers that are the same for the same seed, so that a failure can be run again. */

export interface Random {
  /** 0 <= x < 1 */
  next(): number;
  /** 0 <= x < below, whole. */
  below(below: number): number;
  pick<T>(items: readonly T[]): T;
  bytes(count: number): Buffer;
}

/** Mulberry32. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number): number => Math.floor(next() * limit);
  return {
    next,
    below,
    pick(items) {
      const item = items[below(items.length)];
      if (item === undefined) throw new RangeError("nothing to pick from");
      return item;
    },
    bytes: (count) => Buffer.from(Uint8Array.from({ length: count }, () => below(256))),
  };
}
