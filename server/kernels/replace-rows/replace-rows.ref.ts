/** Reference: a copy of `x` in which row `rows[i]` is `values[i]`. Source: ggml.h, ggml_set_rows. */
export interface ReplaceRowsRef {
  readonly x: Float32Array; // [numRows, width]
  readonly rows: Int32Array; // [count]
  readonly values: Float32Array; // [count, width]
  readonly width: number;
}

export function replaceRowsRef({ x, rows, values, width }: ReplaceRowsRef): Float32Array {
  const out = x.slice();
  rows.forEach((row, i) => {
    out.set(values.subarray(i * width, (i + 1) * width), row * width);
  });
  return out;
}
