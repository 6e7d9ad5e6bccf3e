/**
 * Reference: a branch added to the residual stream, and the norm of the sum. Source: RMSNorm (Zhang and Sennrich 2019),
 * LayerNorm (Ba et al. 2016).
 */
import { layerNormRef } from "../layer-norm/layer-norm.ref.ts";
import { rmsNormRef } from "../rms-norm/rms-norm.ref.ts";

export interface AddNormRef {
  readonly residual: Float32Array; // [numRows, width]
  readonly branch?: Float32Array; // [numRows, width]
  readonly branchScale?: number;
  readonly postWeight?: Float32Array; // [width]
  readonly kind: "rms" | "layer";
  readonly weight: Float32Array; // [width]
  readonly bias?: Float32Array; // [width]
  readonly epsilon: number;
}

export function addNormRef(args: AddNormRef): { readonly residual: Float32Array; readonly out: Float32Array } {
  const { branch, postWeight, branchScale = 1, kind, weight, bias, epsilon } = args;
  const added = postWeight && branch ? rmsNormRef({ x: branch, weight: postWeight, epsilon }) : branch;
  const residual = args.residual.map((value, i) => value + branchScale * (added?.[i] ?? 0));
  const norm = { x: residual, weight, epsilon, ...(bias === undefined ? {} : { bias }) };
  return { residual, out: kind === "rms" ? rmsNormRef(norm) : layerNormRef(norm) };
}
