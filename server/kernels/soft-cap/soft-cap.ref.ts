/**
 * Reference: cap * tanh(x / cap), which keeps small values and bounds large ones. Source: logit soft-capping (Gemma
 * Team 2024).
 */
export function softCapRef(x: Float32Array, cap: number): Float32Array {
  return x.map((value) => cap * Math.tanh(value / cap));
}
