import assert from "node:assert/strict";
import { test } from "node:test";
import { packBytesElements } from "../bytes.ts";
import { encodeUtf8 } from "../utf8.ts";
import { readV2Response, type V2InferResponse } from "./infer-response.ts";

function read(json: string, ...tail: Uint8Array[]): V2InferResponse {
  const head = encodeUtf8(json);
  return readV2Response(Buffer.concat([head, ...tail]), head.length);
}

function withOutputs(...outputs: string[]): string {
  return `{"model_name":"m","model_version":"1","outputs":[${outputs.join(",")}]}`;
}

function binary(size: number | string, rest = '"datatype":"INT32","shape":[2]'): string {
  return `{"name":"Y",${rest},"parameters":{"binary_data_size":${size}}}`;
}

test("readV2Response() gives id, model and scalar parameters, exact to 64 bits", () => {
  const response = read(
    '{"id":"7","model_name":"m","model_version":"3","parameters":{"a":true,"n":9223372036854775807,"d":1.5,"o":{}},"outputs":[]}',
  );
  assert.deepEqual([response.id, response.modelName, response.modelVersion], ["7", "m", "3"]);
  assert.deepEqual(
    [...response.parameters],
    [
      ["a", true],
      ["n", 9223372036854775807n],
      ["d", { double: 1.5 }],
    ],
  );
});

test("readV2Response() cuts the binary part in the order of the outputs, JSON outputs between them", () => {
  const json = withOutputs(
    binary(8),
    '{"name":"J","shape":[1,2],"data":[[-9223372036854775808,1]],"datatype":"INT64"}',
    '{"name":"B","datatype":"BYTES","shape":[2],"parameters":{"binary_data_size":11}}',
  );
  const { outputs } = read(json, Uint8Array.of(1, 0, 0, 0, 2, 0, 0, 0), packBytesElements(["ab", "c"]));
  assert.deepEqual(
    outputs.map(({ name, datatype, shape, data }) => [name, datatype, shape, Buffer.from(data).toString("hex")]),
    [
      ["Y", "INT32", [2], "0100000002000000"],
      ["J", "INT64", [1, 2], "00000000000000800100000000000000"],
      ["B", "BYTES", [2], "0200000061620100000063"],
    ],
  );
});

test("readV2Response() takes empty outputs without a binary part", () => {
  const { outputs } = read(withOutputs(binary(0, '"datatype":"FP16","shape":[0]')));
  assert.equal(outputs[0]?.data.length, 0);
});

const bad: [what: string, json: string, tail: number, message: RegExp][] = [
  ["a body that is no object", "[]", 0, /no JSON object/],
  ["an empty body", "", 0, /no JSON object/],
  ["broken JSON", '{"model_name":', 0, /Invalid value/],
  ["JSON nested too deep", `{"x":${"[".repeat(200)}`, 0, /nesting depth/],
  ["no model name", '{"outputs":[]}', 0, /model_name is no string/],
  ["outputs that are no array", '{"model_name":"m","outputs":{}}', 0, /no array/],
  ["an output that is no object", withOutputs("1"), 0, /name of an output is no string/],
  ["an unknown datatype", withOutputs(binary(8, '"datatype":"INT33","shape":[2]')), 8, /unknown datatype/],
  ["a negative dimension", withOutputs(binary(8, '"datatype":"INT32","shape":[-2]')), 8, /no array of sizes/],
  ["a huge shape", withOutputs(binary(8, '"datatype":"INT32","shape":[4294967296,4294967296]')), 8, /too many/],
  ["a size that is no number", withOutputs(binary('"8"')), 8, /is no size/],
  ["a negative size", withOutputs(binary(-8)), 8, /is no size/],
  ["a fraction as size", withOutputs(binary("8.5")), 8, /is no size/],
  ["a size beyond the tail", withOutputs(binary(1e15)), 8, /1000000000000000 binary bytes announced, 8 are left/],
  ["a size beyond the shape", withOutputs(binary(12)), 12, /takes 8 bytes, the data has 12/],
  ["bytes behind the last output", withOutputs(binary(8)), 9, /1 bytes follow/],
  ["an output without data", withOutputs('{"name":"Y","datatype":"INT32","shape":[1]}'), 0, /has no data/],
  [
    "too few elements",
    withOutputs('{"name":"Y","datatype":"INT32","shape":[2],"data":[1]}'),
    0,
    /2 elements, the data 1/,
  ],
  ["text as a number", withOutputs('{"name":"Y","datatype":"INT32","shape":[1],"data":["1"]}'), 0, /non-signed/],
  ["BYTES that break off", withOutputs(binary(6, '"datatype":"BYTES","shape":[1]')), 6, /announced, 2 are left/],
];
for (const [what, json, numTail, message] of bad) {
  test(`readV2Response() refuses ${what}`, () => {
    assert.throws(() => read(json, new Uint8Array(numTail).fill(1)), message);
  });
}

test("readV2Response() refuses a JSON length that the body does not have", () => {
  for (const length of [3, -1, 0.5, Number.NaN]) {
    assert.throws(() => readV2Response(encodeUtf8("{}"), length), /is said to have/);
  }
});

test("readV2Response() names the shared memory that holds an output, and takes no bytes for it", () => {
  const body = encodeUtf8('{"model_name":"m","outputs":[{"name":"Y","datatype":"FP32","shape":[2]}]}');
  const { outputs } = readV2Response(body, body.length, new Map([["Y", "r"]]));
  assert.deepEqual(outputs, [{ name: "Y", datatype: "FP32", shape: [2], data: new Uint8Array(0), region: "r" }]);
});
