/** Plain reference: each row times the sigmoid of its own number. */
export function gateRowsRef(x: Float32Array, gate: Float32Array): Float32Array {
  const width = x.length / gate.length;
  return x.map((value, i) => value / (1 + Math.exp(-(gate[Math.floor(i / width)] ?? 0))));
}
