import assert from "node:assert/strict";
import { test } from "node:test";
import type { ValueInfo } from "@nereid/server/native/onnxruntime/info";
import { elementTypeOfCode } from "@nereid/server/native/onnxruntime/types";
import { completeProfile, expectShapes, parseShapes } from "./shapes.ts";

const value = (name: string, dims: readonly number[]): ValueInfo => ({
  name,
  kind: "TENSOR",
  elementType: elementTypeOfCode(1),
  dims,
  dimNames: dims.map(() => ""),
});
const INPUTS = [value("input_ids", [-1, -1]), value("onnx::Gather_1", [-1, 3])];

test("parseShapes() reads what trtexec reads", () => {
  const table: [string | undefined, [string, number[]][]][] = [
    [undefined, []],
    ["input_ids:1x16", [["input_ids", [1, 16]]]],
    [
      "input_ids:1x16,onnx::Gather_1:4*3",
      [
        ["input_ids", [1, 16]],
        ["onnx::Gather_1", [4, 3]],
      ],
    ],
    ["'pixel_values':1x3x224x224", [["pixel_values", [1, 3, 224, 224]]]],
    [
      "x:scalar,y:5",
      [
        ["x", []],
        ["y", [5]],
      ],
    ],
  ];
  for (const [text, expected] of table) assert.deepEqual([...parseShapes("--minShapes", text)], expected, text);
});

test("parseShapes() refuses what is no shape, naming the flag", () => {
  for (const text of ["input_ids", "a:1x", "a:1xx2", ":1x2", "a:1x2,a:1x3", "a:99999999999"]) {
    assert.throws(() => parseShapes("--maxShapes", text), /^ToolError: --maxShapes: /, text);
  }
});

test("expectShapes() refuses names, ranks and sizes that the model does not have", () => {
  const table: [string, RegExp][] = [
    ["ids:1x2", /no input 'ids': it has input_ids, onnx::Gather_1/],
    ["input_ids:1", /'input_ids' is \?x\? in the model, got 1/],
    ["onnx::Gather_1:1x4", /'onnx::Gather_1' is \?x3 in the model, got 1x4/],
  ];
  for (const [text, message] of table) {
    assert.throws(() => expectShapes("--optShapes", parseShapes("--optShapes", text), INPUTS), message);
  }
  expectShapes("--optShapes", parseShapes("--optShapes", "onnx::Gather_1:9x3"), INPUTS);
});

test("completeProfile() takes what is missing from the other shapes and 1 for what nobody says", () => {
  const max = parseShapes("--maxShapes", "input_ids:8x64");
  const min = parseShapes("--minShapes", "input_ids:1x1");
  const profile = completeProfile({ min, opt: new Map(), max }, INPUTS);
  assert.deepEqual(
    [...profile.opt],
    [
      ["input_ids", [8, 64]],
      ["onnx::Gather_1", [1, 3]],
    ],
  );
  assert.deepEqual(profile.min.get("input_ids"), [1, 1]);
  assert.throws(
    () => completeProfile({ min: max, opt: min, max: min }, INPUTS),
    /minShapes <= --optShapes <= --maxShapes, got 8x64, 1x1, 1x1/,
  );
});
