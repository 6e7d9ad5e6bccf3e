/** Plain reference: cap * tanh(x / cap), which keeps small values and bounds large ones. */
export function softCapRef(x: Float32Array, cap: number): Float32Array {
  return x.map((value) => cap * Math.tanh(value / cap));
}
