/**
 * Reference: each row times the matrix of the expert that its entry of `ids` names. Source: mixture of experts (Shazeer
 * et al. 2017).
 */
import { linearRef } from "../linear/linear.ref.ts";

export interface ExpertLinearRef {
  readonly x: Float32Array; // [numTokens, 1 or numChosen, inputs]
  readonly weight: Float32Array; // [numExperts, outputs, inputs]
  readonly ids: Int32Array; // [numTokens, numChosen]
  readonly inputs: number;
  readonly outputs: number;
  /** Rows of `x` a token has. */
  readonly rowsPerToken: number;
  readonly numChosen: number;
}

/** [numTokens, numChosen, outputs] */
export function expertLinearRef(args: ExpertLinearRef): Float32Array {
  const { x, weight, ids, inputs, outputs, rowsPerToken, numChosen } = args;
  const out = new Float32Array(ids.length * outputs);
  ids.forEach((id, i) => {
    const row = rowsPerToken === 1 ? Math.floor(i / numChosen) : i;
    const matrix = weight.subarray(id * outputs * inputs, (id + 1) * outputs * inputs);
    out.set(linearRef({ x: x.subarray(row * inputs, (row + 1) * inputs), weight: matrix, inputs }), i * outputs);
  });
  return out;
}
