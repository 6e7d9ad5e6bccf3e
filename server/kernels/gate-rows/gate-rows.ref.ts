/** Reference: each row times the sigmoid of its gate value. Source: shared expert of Qwen2-MoE (Yang et al. 2024). */
export function gateRowsRef(x: Float32Array, gate: Float32Array): Float32Array {
  const width = x.length / gate.length;
  return x.map((value, i) => value / (1 + Math.exp(-(gate[Math.floor(i / width)] ?? 0))));
}
