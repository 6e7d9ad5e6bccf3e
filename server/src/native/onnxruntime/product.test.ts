import assert from "node:assert/strict";
import { test } from "node:test";
import { modelParts } from "../../formats/onnx/writer.ts";
import { addressOf } from "../ffi.ts";
import { MATMUL_MODEL } from "./matmul-session.ts";
import { OnnxRuntime } from "./onnxruntime.ts";

test("MATMUL_MODEL is what the writer of ONNX files makes of one product", () => {
  const value = (name: string, ...dims: string[]) => ({ name, type: 1 as const, dims });
  const parts = modelParts({
    irVersion: 8,
    opset: 13,
    producer: "nereid",
    graphName: "product",
    nodes: [
      { operator: "Gemm", name: "product", inputs: ["x", "w"], outputs: ["y"], attributes: { transB: { int: 1 } } },
    ],
    tensors: [],
    inputs: [value("x", "rows", "inputs"), value("w", "outputs", "inputs")],
    outputs: [value("y", "rows", "outputs")],
  });
  const written = Buffer.concat(parts.filter((part) => part instanceof Uint8Array));
  assert.deepEqual(Buffer.from(MATMUL_MODEL), written);
});

test("run() multiplies where the numbers lie", () => {
  const runtime = new OnnxRuntime({ isVerbose: false });
  const product = runtime.createFloatMatmul(1);
  const x = Float32Array.of(1, 2, 3, 4, 5, 6);
  const weight = Float32Array.of(1, 0, 0, 0, 1, 1);
  const y = new Float32Array(4);
  const sizes = { numRows: 2, numInputs: 3, numOutputs: 2 };
  product.run(addressOf(x), addressOf(weight), addressOf(y), sizes);
  product.run(addressOf(x), addressOf(weight), addressOf(y), sizes);
  assert.deepEqual(y, Float32Array.of(1, 5, 4, 11));
  product.close();
  runtime.close();
});
