/**
 * Reference: silu(gate) * up, where each row holds its gate columns, then its up columns. Source: SwiGLU (Shazeer
 * 2020).
 */
export function siluMulRef(gateUp: Float32Array, width: number): Float32Array {
  const numRows = gateUp.length / (2 * width);
  const out = new Float32Array(numRows * width);
  for (let row = 0; row < numRows; row++) {
    for (let i = 0; i < width; i++) {
      const gate = gateUp[row * 2 * width + i] ?? 0;
      const up = gateUp[row * 2 * width + width + i] ?? 0;
      out[row * width + i] = (gate / (1 + Math.exp(-gate))) * up;
    }
  }
  return out;
}
