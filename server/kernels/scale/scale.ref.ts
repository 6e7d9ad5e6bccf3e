/** Reference: every element times one factor. Source: ggml.h, ggml_scale. */
export function scaleRef(x: Float32Array, factor: number): Float32Array {
  return x.map((value) => value * factor);
}
