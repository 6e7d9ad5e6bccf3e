/** Reference: y = x . weight^T + bias, summed in double precision. Source: ggml.h, ggml_mul_mat. */
export interface LinearRef {
  readonly x: Float32Array; // [numRows, inputs]
  readonly weight: Float32Array; // [outputs, inputs]
  readonly bias?: Float32Array; // [outputs]
  readonly inputs: number;
}

export function linearRef({ x, weight, bias, inputs }: LinearRef): Float32Array {
  const numRows = x.length / inputs;
  const outputs = weight.length / inputs;
  const out = new Float32Array(numRows * outputs);
  for (let row = 0; row < numRows; row++) {
    for (let column = 0; column < outputs; column++) {
      let sum = bias?.[column] ?? 0;
      for (let i = 0; i < inputs; i++) sum += (x[row * inputs + i] ?? 0) * (weight[column * inputs + i] ?? 0);
      out[row * outputs + column] = sum;
    }
  }
  return out;
}
