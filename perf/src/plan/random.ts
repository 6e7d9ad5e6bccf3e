/** Random numbers that are the same for the same seed, so that a load can be repeated. */
import { seededRandom } from "@nereid/server/backend/fault/seeded-random";

export interface Random {
  /** 0 <= x < 1 */
  next(): number;
  /** Whole, 0 <= x < limit. */
  below(limit: number): number;
  /** Mean 0, standard deviation 1. */
  normal(): number;
  /** Gamma distributed with mean 1. `shape`: the inverse of the squared coefficient of variation. */
  gamma(shape: number): number;
}

/** Normal numbers by Box and Muller (1958), gamma by Marsaglia and Tsang (2000). */
export function createRandom(seed: number): Random {
  const next = seededRandom(seed);
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  const gammaAbove1 = (shape: number): number => {
    const d = shape - 1 / 3;
    const c = 1 / Math.sqrt(9 * d);
    for (;;) {
      const x = normal();
      const v = (1 + c * x) ** 3;
      if (v > 0 && Math.log(1 - next()) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v;
    }
  };
  // A shape below 1 is one above it, scaled down (Marsaglia and Tsang, section 6).
  const gamma = (shape: number): number =>
    (shape >= 1 ? gammaAbove1(shape) : gammaAbove1(shape + 1) * (1 - next()) ** (1 / shape)) / shape;
  return { next, below: (limit) => Math.floor(next() * limit), normal, gamma };
}
