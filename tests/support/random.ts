/** Random numbers that are the same for the same seed, so that a failure can be run again. */
import { seededRandom } from "../../server/src/backend/fault/seeded-random.ts";

export interface Random {
  /** 0 <= x < 1 */
  next(): number;
  /** 0 <= x < below, whole. */
  below(below: number): number;
  pick<T>(items: readonly T[]): T;
  bytes(count: number): Buffer;
}

export function createRandom(seed: number): Random {
  const next = seededRandom(seed);
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
