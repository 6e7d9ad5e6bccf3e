/** A small network in ONNX with weights of its own. */
import { type Dim, model, node, ONNX_TYPE, tensor } from "./onnx-writer.ts";

/** X and Y are FP32, [batch, size]: two layers with a softmax. */
export function perceptron(batch: Dim, size: number): Uint8Array {
  const weights = (name: string, factor: number): Uint8Array => {
    const values = Float32Array.from({ length: size * size }, (_, i) => Math.cos(i * factor) / 4);
    return tensor(name, ONNX_TYPE.FLOAT, [size, size], new Uint8Array(values.buffer));
  };
  return model({
    nodes: [
      node("MatMul", ["X", "A"], ["h1"]),
      node("Tanh", ["h1"], ["h2"]),
      node("MatMul", ["h2", "B"], ["h3"]),
      node("Softmax", ["h3"], ["Y"]),
    ],
    inputs: [["X", ONNX_TYPE.FLOAT, [batch, size]]],
    outputs: [["Y", ONNX_TYPE.FLOAT, [batch, size]]],
    initializers: [weights("A", 0.7), weights("B", 1.3)],
  });
}
