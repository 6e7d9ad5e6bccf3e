import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { documentParts, type OnnxDocument, parseOnnxDocument } from "@nereid/server/formats/onnx/document";
import { attribute, intField, type ModelSpec, model, node, ONNX_TYPE, tensor } from "../../tests/fakes/onnx-writer.ts";
import { writeModel } from "./model-files.ts";
import { quantizeGraph } from "./quantize-graph.ts";
import { quantizeColumns } from "./quantize-matrix.ts";
import { ModelOpener } from "./sessions.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-quantize-"));
const opener = new ModelOpener();
after(() => {
  opener[Symbol.dispose]();
  rmSync(folder, { recursive: true });
});

const WEIGHTS = [0.5, -1, 2, 0.25, 1, -4];
const floats = (values: readonly number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer);
const matrix = (name: string, dims: readonly number[]): Uint8Array =>
  tensor(name, ONNX_TYPE.FLOAT, dims, floats(WEIGHTS));
const transposedB = attribute("transB", 2, [intField(3, 1)]);

function modelOf(nodes: readonly Uint8Array[], initializers: readonly Uint8Array[]): OnnxDocument {
  const spec: ModelSpec = {
    nodes,
    initializers,
    inputs: [["X", ONNX_TYPE.FLOAT, ["n", 3]]],
    outputs: [["Y", ONNX_TYPE.FLOAT, ["n", 2]]],
  };
  return parseOnnxDocument(model(spec));
}

async function run(document: OnnxDocument, name: string): Promise<number[]> {
  const path = join(folder, `${name}.onnx`);
  await writeModel(path, documentParts(document), new AbortController().signal);
  const session = await opener.open(path, 99);
  const data = floats([1, 2, 3, -0.5, 0, 1]);
  const [output] = session.run([{ name: "X", datatype: "FP32", shape: [2, 3], data }], [{ name: "Y" }]);
  await session.close();
  return [...new Float32Array(Uint8Array.from(output?.data ?? []).buffer)];
}

const operatorsOf = ({ nodes }: OnnxDocument): string[] => nodes.map(({ operator }) => operator);

test("quantizeColumns() keeps the largest of each column whole and rounds the rest to its scale", () => {
  const values = Float32Array.from([1, -20, 0.25, 5]);
  const signed = quantizeColumns(values, 2, { type: "int8", isReduced: false });
  assert.deepEqual([...new Int8Array(signed.data.buffer)], [127, -127, 32, 32]);
  assert.deepEqual([...signed.scales], [Math.fround(1 / 127), Math.fround(20 / 127)]);
  const unsigned = quantizeColumns(values, 2, { type: "uint8", isReduced: true });
  assert.deepEqual([[...unsigned.data], unsigned.zeroPoint], [[191, 65, 144, 144], 128]);
  const zeros = quantizeColumns(new Float32Array(2), 1, { type: "int8", isReduced: false });
  assert.deepEqual([[...zeros.data], [...zeros.scales]], [[0, 0], [1]]);
});

for (const type of ["int8", "uint8"] as const) {
  test(`quantizeGraph() computes nearly the same with ${type} weights`, async () => {
    const cases = {
      matmul: modelOf([node("MatMul", ["X", "W"], ["Y"])], [matrix("W", [3, 2])]),
      gemm: modelOf(
        [node("Gemm", ["X", "W", "C"], ["Y"], [transposedB])],
        [matrix("W", [2, 3]), tensor("C", 1, [2], floats([5, -5]))],
      ),
    };
    for (const [name, document] of Object.entries(cases)) {
      const expected = await run(document, `${name}-before-${type}`);
      const { document: quantized, numMatmuls } = quantizeGraph(document, { type, isReduced: false }, () => undefined);
      assert.equal(numMatmuls, 1);
      assert.equal(quantized.tensors.has("W"), false);
      const got = await run(quantized, `${name}-${type}`);
      const furthest = Math.max(...got.map((value, index) => Math.abs(value - (expected[index] ?? Number.NaN))));
      assert.ok(furthest > 0 && furthest < 0.1, `${name}: ${got} in place of ${expected}`);
    }
  });
}

test("quantizeGraph() quantizes an activation and a weight once when several products use them", () => {
  const nodes = [node("MatMul", ["X", "W"], ["a"]), node("MatMul", ["X", "W"], ["b"]), node("Add", ["a", "b"], ["Y"])];
  const { document } = quantizeGraph(
    modelOf(nodes, [matrix("W", [3, 2])]),
    { type: "int8", isReduced: false },
    () => undefined,
  );
  assert.equal(operatorsOf(document).filter((operator) => operator === "DynamicQuantizeLinear").length, 1);
  assert.equal(document.tensors.size, 3);
});

test("quantizeGraph() leaves alone what is no product with a constant matrix of finite float32", () => {
  const scaled = attribute("alpha", 1, [Buffer.concat([Buffer.from([0x15]), floats([2])])]);
  const infinite = tensor("W", ONNX_TYPE.FLOAT, [3, 2], floats([1, 2, 3, 4, 5, Number.POSITIVE_INFINITY]));
  const batched = tensor("W", ONNX_TYPE.FLOAT, [1, 3, 2], floats(WEIGHTS));
  const cases = [
    modelOf([node("Gemm", ["X", "W"], ["Y"], [scaled])], [matrix("W", [3, 2])]),
    modelOf([node("MatMul", ["X", "W"], ["Y"])], [infinite]),
    modelOf([node("MatMul", ["X", "W"], ["Y"])], [batched]),
    modelOf([node("MatMul", ["X", "X"], ["Y"])], []),
  ];
  for (const document of cases) {
    const { document: same, numMatmuls } = quantizeGraph(document, { type: "int8", isReduced: false }, () => undefined);
    assert.equal(numMatmuls, 0);
    assert.deepEqual(operatorsOf(same), operatorsOf(document));
  }
});

test("quantizeGraph() keeps a matrix that something else needs too", () => {
  const nodes = [node("MatMul", ["X", "W"], ["a"]), node("ReduceSum", ["W"], ["s"]), node("Add", ["a", "s"], ["Y"])];
  const { document } = quantizeGraph(
    modelOf(nodes, [matrix("W", [3, 2])]),
    { type: "int8", isReduced: false },
    () => undefined,
  );
  assert.equal(document.tensors.has("W"), true);
});
