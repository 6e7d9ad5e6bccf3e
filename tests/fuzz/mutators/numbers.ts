/** Values at the borders of integer types, where readers go wrong. */
import type { Random } from "../../support/random.ts";

export const BORDERS: readonly bigint[] = [
  0n,
  1n,
  2n,
  127n,
  128n,
  255n,
  256n,
  65_535n,
  65_536n,
  2n ** 31n - 1n,
  2n ** 31n,
  2n ** 32n - 1n,
  2n ** 32n,
  2n ** 53n - 1n,
  2n ** 53n,
  2n ** 53n + 1n,
  2n ** 63n - 1n,
  2n ** 63n,
  2n ** 64n - 1n,
];

/** A border, or a number near `value`. */
export function oddNumber(random: Random, value = 0n): bigint {
  const number = random.below(3) === 0 ? value + BigInt(random.below(9) - 4) : random.pick(BORDERS);
  return BigInt.asUintN(64, number);
}
