import assert from "node:assert/strict";
import { test } from "node:test";
import {
  addSub,
  attribute,
  bytesField,
  externalTensor,
  graph,
  intField,
  messageField,
  model,
  node,
  ONNX_TYPE,
  tensor,
} from "../../../../tests/fakes/onnx-writer.ts";
import { readFields } from "../protobuf/reader.ts";
import { type Part, varint, varintField } from "../protobuf/writer.ts";
import { documentParts, parseOnnxDocument, usedNames } from "./document.ts";
import { modelParts, ONNX_TYPES } from "./writer.ts";

const { FLOAT, INT64 } = ONNX_TYPE;
const joined = (parts: readonly Part[]): Uint8Array => Buffer.concat(parts as Uint8Array[]);

test("documentParts() writes a model that reads as the one it was read from", () => {
  const bytes = model({
    nodes: [node("Add", ["X", "W"], ["Y"], [attribute("axis", 2, [intField(3, -1)])])],
    initializers: [tensor("W", FLOAT, [2], new Uint8Array(8))],
    inputs: [["X", FLOAT, ["n", 2]]],
    outputs: [["Y", FLOAT, ["n", 2]]],
    modelExtra: [messageField(14, [bytesField(1, "key"), bytesField(2, "value")])],
  });
  const document = parseOnnxDocument(bytes);
  const again = parseOnnxDocument(joined(documentParts(document)));
  assert.deepEqual(again, document);
  const { opset, nodes, tensors, inputs, outputs } = document;
  assert.deepEqual([opset, [...tensors.keys()], [...inputs], [...outputs]], [17, ["W"], ["X"], ["Y"]]);
  assert.deepEqual([nodes[0]?.operator, nodes[0]?.inputs, nodes[0]?.outputs], ["Add", ["X", "W"], ["Y"]]);
});

test("parseOnnxDocument() reads what modelParts() writes", () => {
  const parts = modelParts({
    irVersion: 8,
    opset: 17,
    producer: "tests",
    graphName: "g",
    nodes: [
      {
        operator: "Conv",
        name: "c",
        inputs: ["X", "W"],
        outputs: ["Y"],
        attributes: { strides: { ints: [2, 2] }, group: { int: 1 }, alpha: { float: 0.5 }, mode: { text: "same" } },
      },
    ],
    tensors: [
      { name: "W", type: ONNX_TYPES.FLOAT, dims: [1, 2], data: new Uint8Array(8) },
      { name: "far", type: ONNX_TYPES.FLOAT, dims: [4], data: { location: "model.onnx_data", offset: 0, length: 16 } },
    ],
    inputs: [{ name: "X", type: ONNX_TYPES.FLOAT, dims: ["batch_size", 3] }],
    outputs: [{ name: "Y", type: ONNX_TYPES.INT64, dims: [] }],
  });
  const { nodes, tensors, inputs } = parseOnnxDocument(joined(parts));
  assert.deepEqual([...(nodes[0]?.attributes.keys() ?? [])], ["strides", "group", "alpha", "mode"]);
  assert.deepEqual([tensors.get("W")?.dims, tensors.get("W")?.data?.byteLength], [[1, 2], 8]);
  assert.deepEqual([tensors.get("far")?.dims, tensors.get("far")?.data], [[4], undefined]);
  assert.deepEqual([...inputs], ["X"]);
});

test("parseOnnxDocument() leaves data in other files there", () => {
  const far = externalTensor("W", FLOAT, [2], { location: "weights.bin" });
  const packed = Buffer.concat([bytesField(1, Uint8Array.of(2, 3)), intField(2, FLOAT), bytesField(8, "P")]);
  const bytes = model({ nodes: [], inputs: [], outputs: [], initializers: [far, packed] });
  const { tensors } = parseOnnxDocument(bytes);
  assert.equal(tensors.get("W")?.data, undefined);
  assert.deepEqual(tensors.get("P")?.dims, [2, 3]);
});

test("usedNames() sees what graphs inside nodes use, at any depth", () => {
  const inner = graph({ nodes: [node("Add", ["a", "W"], ["b"])], inputs: [], outputs: [["b", FLOAT, []]] });
  const middle = graph({
    nodes: [node("If", ["c"], ["d"], [attribute("then_branch", 5, [bytesField(6, inner)])])],
    inputs: [],
    outputs: [],
  });
  const outer = node("Loop", ["n"], ["Y"], [attribute("body", 5, [bytesField(6, middle)])]);
  const document = parseOnnxDocument(model({ nodes: [outer], inputs: [], outputs: [["Y", INT64, []]] }));
  assert.deepEqual([...usedNames(document)].sort(), ["W", "Y", "a", "b", "c", "n"]);
});

test("parseOnnxDocument() refuses bytes that are no model, at every length", () => {
  const bytes = addSub(FLOAT, [4]);
  const isRefused = (cut: Uint8Array): boolean => {
    try {
      parseOnnxDocument(cut);
      return false;
    } catch (error) {
      return error instanceof Error;
    }
  };
  const taken = Array.from({ length: bytes.byteLength }, (_, length) => length).filter(
    (length) => !isRefused(bytes.subarray(0, length)),
  );
  // A truncated file is a valid model only at the end of a model field: after the graph, which precedes the opset.
  assert.equal(taken.length, 1);
  let nested: Uint8Array = new Uint8Array(0);
  for (let depth = 0; depth < 30; depth++) {
    nested = graph({
      nodes: [node("If", ["c"], ["d"], [attribute("then_branch", 5, [bytesField(6, nested)])])],
      inputs: [],
      outputs: [],
    });
  }
  assert.throws(() => parseOnnxDocument(bytesField(7, nested)), /more than 20 graphs inside each other/);
});

test("readFields() refuses unknown kinds and numbers that do not end", () => {
  for (const bytes of [
    [0x0b],
    [0x0c],
    [0x08],
    [0x08, 0x80],
    new Array(11).fill(0xff),
    [0x0a, 0x05, 0x01],
    [0x0d, 1, 2],
  ]) {
    assert.throws(() => readFields(Uint8Array.from(bytes)), /ProtoError/, `${bytes}`);
  }
});

test("varint() writes as many bytes as protobuf has for a number", () => {
  const table: [number | bigint, number[]][] = [
    [0, [0]],
    [127, [127]],
    [128, [0x80, 1]],
    [300, [0xac, 2]],
    [-1, [...new Array(9).fill(0xff), 1]],
  ];
  for (const [value, expected] of table) assert.deepEqual([...varint(value)], expected, `${value}`);
  assert.equal(readFields(varintField(3, 2 ** 40))[0]?.value, 2 ** 40);
});
