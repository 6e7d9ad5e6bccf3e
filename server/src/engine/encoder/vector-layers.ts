/**
 * Layers behind the pooling of an encoder: linear layers of sentence-transformers and of classification heads. A vector has
 * a thousand numbers, so they are computed here and not on the device.
 */
export type VectorActivation = "none" | "tanh" | "gelu" | "relu";

export interface VectorLayer {
  readonly weight: Float32Array; // [outputs, inputs]
  readonly bias: Float32Array | undefined; // [outputs]
  readonly activation: VectorActivation;
  /** Layer norm of the result; absent: none. */
  readonly norm?: { readonly weight: Float32Array; readonly bias: Float32Array | undefined; readonly epsilon: number };
}

/** Numbers of the result of all layers, `inputs` where there are none. */
export function outputsOf(layers: readonly VectorLayer[], inputs: number): number {
  return layers.reduce((size, { weight }) => weight.length / size, inputs);
}

export function applyLayers(layers: readonly VectorLayer[], vector: Float32Array): Float32Array {
  return layers.reduce(applyLayer, vector);
}

function applyLayer(x: Float32Array, { weight, bias, activation, norm }: VectorLayer): Float32Array {
  const outputs = weight.length / x.length;
  const y = new Float32Array(outputs);
  for (let row = 0; row < outputs; row++) {
    let sum = bias?.[row] ?? 0;
    const first = row * x.length;
    for (let i = 0; i < x.length; i++) sum += (weight[first + i] ?? 0) * (x[i] ?? 0);
    y[row] = activate(sum, activation);
  }
  return norm === undefined ? y : layerNorm(y, norm);
}

function activate(value: number, activation: VectorActivation): number {
  switch (activation) {
    case "none":
      return value;
    case "tanh":
      return Math.tanh(value);
    case "relu":
      return Math.max(0, value);
    case "gelu":
      return 0.5 * value * (1 + errorFunction(value / Math.SQRT2));
  }
}

/** Series and continued fraction of the error function. Source: Abramowitz and Stegun, 7.1.6 and 7.1.14. */
function errorFunction(x: number): number {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  const scale = (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x);
  if (size < 3) {
    let [term, sum] = [x, x];
    for (let n = 1; n < 80; n++) {
      term *= (2 * x * x) / (2 * n + 1);
      sum += term;
    }
    return scale * sum;
  }
  let fraction = 0;
  for (let n = 60; n > 0; n--) fraction = n / 2 / (size + fraction);
  return Math.sign(x) * (1 - scale / 2 / (size + fraction));
}

function layerNorm(x: Float32Array, { weight, bias, epsilon }: NonNullable<VectorLayer["norm"]>): Float32Array {
  const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  const scale = 1 / Math.sqrt(variance + epsilon);
  return x.map((value, i) => (value - mean) * scale * (weight[i] ?? 0) + (bias?.[i] ?? 0));
}
