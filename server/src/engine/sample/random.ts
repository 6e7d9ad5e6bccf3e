/** Random numbers by position instead of by history: the same seed and index give the same number in any batch. */

/** Uniform in [0, 1), 53 bits. */
export function uniformAt(seedLow: number, seedHigh: number, index: number): number {
  const a = mix(mix(seedLow ^ Math.imul(index, 0x9e3779b1)) ^ seedHigh);
  const b = mix(mix(seedHigh ^ Math.imul(index, 0x85ebca77) ^ 0x5bd1e995) ^ seedLow ^ a);
  return ((a >>> 5) * 67_108_864 + (b >>> 6)) / 9_007_199_254_740_992;
}

/** A bijection of 32 bits that spreads every input bit over all output bits. */
function mix(value: number): number {
  let x = value | 0;
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
  return x ^ (x >>> 16);
}
