/** Reference: a + b, element by element. Source: ggml.h, ggml_add. */
export function addRef(a: Float32Array, b: Float32Array): Float32Array {
  if (a.length !== b.length) throw new Error(`add: expected ${a.length} elements, got ${b.length}`);
  return a.map((value, i) => value + (b[i] ?? 0));
}
