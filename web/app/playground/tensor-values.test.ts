import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyWithFiles, draftOf, type TensorDraft, tensorOf } from "./tensor-values.ts";

const DRAFT: TensorDraft = { name: "x", datatype: "INT32", shape: "1, 3", values: "1, 2 3", isOptional: false };

test("`draftOf()` fills a tensor that can be sent as it is", () => {
  const draft = draftOf({ name: "x", datatype: "FP32", shape: [-1, 4], isOptional: false });
  assert.deepEqual(tensorOf(draft), { name: "x", datatype: "FP32", shape: [1, 4], data: [0, 0, 0, 0] });
});

for (const [what, change, data] of [
  ["numbers", {}, [1, 2, 3]],
  ["nested JSON", { values: "[[1, 2, 3]]" }, [1, 2, 3]],
  ["booleans", { datatype: "BOOL", values: "true 0 TRUE" }, [true, false, true]],
  ["a text a line", { datatype: "BYTES", values: "a b\nc\n" }, ["a b", "c", ""]],
] as const) {
  test(`\`tensorOf()\` reads ${what}`, () => assert.deepEqual(tensorOf({ ...DRAFT, ...change })?.data, data));
}

for (const [what, change, message] of [
  ["too few values", { values: "1" }, /holds 3 elements, but there are 1/],
  ["a fraction for an integer", { values: "1, 2, 2.5" }, /INT32 takes whole numbers, got '2.5'/],
  ["a word for a number", { datatype: "FP32", values: "1, 2, two" }, /got 'two'/],
  ["a shape of words", { shape: "1, n" }, /got 'n'/],
  ["broken JSON", { values: "[1, 2" }, /are JSON, and this is none/],
] as const) {
  test(`\`tensorOf()\` refuses ${what}`, () => assert.throws(() => tensorOf({ ...DRAFT, ...change }), message));
}

test("`tensorOf()` leaves out optional inputs without values", () => {
  assert.equal(tensorOf({ ...DRAFT, isOptional: true, values: " " }), undefined);
});

test("`bodyWithFiles()` puts files behind the JSON, each with its length", () => {
  const inputs = [
    { name: "a", datatype: "BYTES", shape: [1], data: ["file.png"] },
    { name: "b", datatype: "INT32", shape: [1], data: [7] },
  ];
  const { body, jsonBytes } = bodyWithFiles(inputs, new Map([["a", Uint8Array.of(9, 8, 7)]]));
  assert.deepEqual(JSON.parse(new TextDecoder().decode(body.subarray(0, jsonBytes))), {
    inputs: [
      { name: "a", datatype: "BYTES", shape: [1], parameters: { binary_data_size: 7 } },
      { name: "b", datatype: "INT32", shape: [1], data: [7] },
    ],
  });
  assert.deepEqual([...body.subarray(jsonBytes)], [3, 0, 0, 0, 9, 8, 7]);
});
