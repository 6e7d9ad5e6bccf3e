/**
 * Reference: gelu(gate) * up, where each row holds its gate columns, then its up columns. Source: GeGLU (Shazeer 2020).
 */
import { type GeluForm, geluOf } from "../gelu/gelu.ref.ts";

export function geluMulRef(gateUp: Float32Array, width: number, form: GeluForm): Float32Array {
  const numRows = gateUp.length / (2 * width);
  const out = new Float32Array(numRows * width);
  for (let row = 0; row < numRows; row++) {
    for (let i = 0; i < width; i++) {
      const from = row * 2 * width + i;
      out[row * width + i] = geluOf(gateUp[from] ?? 0, form) * (gateUp[from + width] ?? 0);
    }
  }
  return out;
}
