/** Reference: rows of a, each followed by the row of b. Source: ggml.h, ggml_concat. */
export function concatRef(a: Float32Array, b: Float32Array, numRows: number): Float32Array {
  const [widthA, widthB] = [a.length / numRows, b.length / numRows];
  const joined = new Float32Array(a.length + b.length);
  for (let row = 0; row < numRows; row++) {
    const at = row * (widthA + widthB);
    joined.set(a.subarray(row * widthA, (row + 1) * widthA), at);
    joined.set(b.subarray(row * widthB, (row + 1) * widthB), at + widthA);
  }
  return joined;
}
