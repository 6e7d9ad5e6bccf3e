/** Plain reference: every element times one factor. */
export function scaleRef(x: Float32Array, factor: number): Float32Array {
  return x.map((value) => value * factor);
}
