/**
 * Reference parts of the grouped GEMMs: the gated activation behind sums with biases, and the order of FP8 codes. Source:
 * SwiGLU (Shazeer 2020); gpt-oss model card (OpenAI 2025).
 */

/** Adds the bias of the expert of each row. */
export function withExpertBiases(
  rows: Float32Array, // [ids.length, outputs]
  ids: Int32Array,
  bias: Float32Array, // [numExperts, outputs]
): Float32Array {
  const outputs = rows.length / ids.length;
  return rows.map((sum, i) => sum + (bias[(ids[Math.floor(i / outputs)] ?? 0) * outputs + (i % outputs)] ?? 0));
}

/** act(gate) * up of rows [gate | up]: SiLU, or gpt-oss's clamped SwiGLU. */
export function gatedRef(
  rows: Float32Array, // [numRows, 2 * width]
  width: number,
  clamp?: { readonly alpha: number; readonly limit: number },
): Float32Array {
  return Float32Array.from({ length: rows.length / 2 }, (_, i) => {
    const at = Math.floor(i / width) * 2 * width + (i % width);
    const [gate, up] = [rows[at] ?? Number.NaN, rows[at + width] ?? Number.NaN];
    if (clamp === undefined) return (gate / (1 + Math.exp(-gate))) * up;
    const { alpha, limit } = clamp;
    const held = Math.min(gate, limit);
    return (held / (1 + Math.exp(-alpha * held))) * (Math.max(-limit, Math.min(limit, up)) + 1);
  });
}

/** Sixteen FP8 codes in the order of the grouped GEMMs: 0 1 8 9, 2 3 10 11, 4 5 12 13, 6 7 14 15 (quantize.cuh). */
export function interleavedCodes(codes: Uint8Array): Uint8Array {
  return codes.map((_, i) => {
    const [group, place] = [i & ~15, i & 15];
    return codes[group + 2 * (place >> 2) + (place & 1) + (place & 2 ? 8 : 0)] ?? 0;
  });
}
