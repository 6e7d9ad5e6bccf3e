/**
 * GELU in f32. ggml's own tanh form is a table over the FP16 bits of the argument, which costs three digits. Here it is
 * silu(z) / w, with w = 2a(1 + bx^2) and z = xw. The reason: (1 + tanh(z / 2)) / 2 is the sigmoid of z. Bound by bytes.
 * Source: GELU (Hendrycks and Gimpel 2016); ggml.h, ggml_gelu_erf and ggml_silu.
 */

import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";
import type { Address } from "../../src/native/ffi.ts";

export interface GeluArgs {
  readonly x: CpuTensor; // [numRows, width]
  readonly form: "tanh" | "erf";
}

const TWO_A: number = 2 * Math.sqrt(2 / Math.PI);
const B = 0.044715;

export function recordGelu(graph: CpuGraph, { x, form }: GeluArgs): CpuTensor {
  expectTensor("gelu x", x, ["f32"], [-1, -1]);
  const { base } = graph.ggml;
  if (form === "erf") return { handle: base.geluErf(graph.claim(), x.handle), type: "f32", shape: x.shape };
  const { z, w } = recordTanhTerms(graph, x.handle);
  const handle = base.div(graph.claim(), base.silu(graph.claim(), z), w);
  return { handle, type: "f32", shape: x.shape };
}

/** The two terms of the tanh form: gelu(x) = silu(z) / w. */
export function recordTanhTerms(graph: CpuGraph, x: Address): { readonly z: Address; readonly w: Address } {
  const { base } = graph.ggml;
  const squared = base.mul(graph.claim(), x, x);
  const w = base.scaleBias(graph.claim(), squared, TWO_A * B, TWO_A);
  return { z: base.mul(graph.claim(), x, w), w };
}
