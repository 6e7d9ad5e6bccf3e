/**
 * Reference of the fused layer kernel, step by step in double precision; rounded to bf16 where the kernel stores.
 * Source: RMSNorm (Zhang and Sennrich 2019), SwiGLU (Shazeer 2020).
 */
import { linearRef } from "../linear/linear.ref.ts";
import { fromElements, toElements } from "../testing/cuda-elements.ts";

export interface FusedLayerRef {
  readonly attention: Float32Array;
  readonly residual: Float32Array;
  readonly oProj: Float32Array;
  readonly gateUp: Float32Array;
  readonly down: Float32Array;
  readonly qkvProj: Float32Array;
  readonly norm: Float32Array;
  readonly outNorm: Float32Array;
  readonly bias?: Float32Array;
  readonly attentionWidth: number;
  readonly width: number;
  readonly inner: number;
  readonly epsilon: number;
}

export interface FusedLayerResult {
  readonly residual: Float32Array;
  readonly out: Float32Array;
}

export function fusedLayerRef(args: FusedLayerRef): FusedLayerResult {
  const { attentionWidth, width, inner } = args;
  const attention = linearRef({ x: args.attention, weight: args.oProj, inputs: attentionWidth });
  const middle = stored(args.residual.map((value, i) => value + (attention[i] ?? 0)));
  const gateUp = linearRef({ x: normed(middle, args.norm, args), weight: args.gateUp, inputs: width });
  const activated = new Float32Array((gateUp.length / 2) | 0).map((_, i) => {
    const at = Math.floor(i / inner) * 2 * inner + (i % inner);
    const gate = gateUp[at] ?? 0;
    return (gate / (1 + Math.exp(-gate))) * (gateUp[at + inner] ?? 0);
  });
  const down = linearRef({ x: stored(activated), weight: args.down, inputs: inner });
  const residual = stored(middle.map((value, i) => value + (down[i] ?? 0)));
  const x = normed(residual, args.outNorm, args);
  const bias = args.bias === undefined ? {} : { bias: args.bias };
  return { residual, out: linearRef({ x, weight: args.qkvProj, inputs: width, ...bias }) };
}

function normed(rows: Float32Array, norm: Float32Array, { width, epsilon }: FusedLayerRef): Float32Array {
  const out = new Float32Array(rows.length);
  for (let start = 0; start < rows.length; start += width) {
    let squares = 0;
    for (let i = 0; i < width; i++) squares += (rows[start + i] ?? 0) ** 2;
    const inverse = 1 / Math.sqrt(squares / width + epsilon);
    for (let i = 0; i < width; i++) out[start + i] = (rows[start + i] ?? 0) * inverse * (norm[i] ?? 0);
  }
  return stored(out);
}

function stored(values: Float32Array): Float32Array {
  return fromElements("bf16", toElements("bf16", values));
}
