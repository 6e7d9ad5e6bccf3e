/**
 * Reference: each row times the matrix of the expert that its entry of `ids` names, with the bias and the gated activation
 * behind it. Source: mixture of experts (Shazeer et al. 2017); SwiGLU (Shazeer 2020); gpt-oss model card (OpenAI 2025).
 */
import { linearRef } from "../linear/linear.ref.ts";

export interface ExpertLinearRef {
  readonly x: Float32Array; // [numTokens, 1 or numChosen, inputs]
  readonly weight: Float32Array; // [numExperts, outputs, inputs]
  readonly ids: Int32Array; // [numTokens, numChosen]
  readonly bias?: Float32Array | undefined; // [numExperts, outputs]
  readonly inputs: number;
  readonly outputs: number;
  /** Rows of `x` a token has. */
  readonly rowsPerToken: number;
  readonly numChosen: number;
}

/** [numTokens, numChosen, outputs] */
export function expertLinearRef(args: ExpertLinearRef): Float32Array {
  const { x, weight, ids, bias, inputs, outputs, rowsPerToken, numChosen } = args;
  const out = new Float32Array(ids.length * outputs);
  ids.forEach((id, i) => {
    const row = rowsPerToken === 1 ? Math.floor(i / numChosen) : i;
    const matrix = weight.subarray(id * outputs * inputs, (id + 1) * outputs * inputs);
    const added = bias?.subarray(id * outputs, (id + 1) * outputs);
    const xRow = x.subarray(row * inputs, (row + 1) * inputs);
    out.set(
      linearRef({ x: xRow, weight: matrix, inputs, ...(added === undefined ? {} : { bias: added }) }),
      i * outputs,
    );
  });
  return out;
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
