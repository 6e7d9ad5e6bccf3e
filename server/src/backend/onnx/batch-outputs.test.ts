import assert from "node:assert/strict";
import { test } from "node:test";
import { packBytesElements } from "../../core/bytes-tensor.ts";
import { NO_PARAMETERS, NO_SEQUENCE } from "../../core/infer-request.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { BackendRequest } from "../backend.ts";
import { splitOutputs } from "./batch-outputs.ts";

const asked = (batchSize: number, outputNames: readonly string[] = ["Y"]): BackendRequest => ({
  request: {
    modelName: "m",
    modelVersion: "",
    id: "",
    inputs: [],
    outputs: [],
    parameters: NO_PARAMETERS,
    sequence: NO_SEQUENCE,
    priority: 0,
    timeoutUs: 0,
    signal: new AbortController().signal,
    origin: { key: {}, isLast: true },
    arrivalMs: 0,
  },
  batchSize,
  outputNames,
  respond: () => assert.fail("nothing is answered here"),
  fail: () => assert.fail("nothing fails here"),
  drained: () => Promise.resolve(),
});
const bytes = (name: string, shape: number[], data: number[]): Tensor => ({
  name,
  datatype: "UINT8",
  shape,
  data: Uint8Array.from(data),
});
const shown = (shares: Tensor[][]): unknown =>
  shares.map((share) => share.map(({ shape, data }) => [shape, [...data]]));

test("splitOutputs() gives each request its rows of what it wants", () => {
  const outputs = [bytes("Y", [3, 2], [1, 2, 3, 4, 5, 6]), bytes("Z", [3], [7, 8, 9])];
  const requests = [asked(1), asked(2, ["Z"]), asked(0, ["Y", "Z"])];
  assert.deepEqual(shown(splitOutputs(requests, outputs, true)), [
    [
      [
        [1, 2],
        [1, 2],
      ],
    ],
    [[[2], [8, 9]]],
    [
      [[0, 2], []],
      [[0], []],
    ],
  ]);
});

test("splitOutputs() finds the borders of strings, multibyte and empty", () => {
  const texts = ["a", "zażółć", "", "😀"];
  const output: Tensor = { name: "Y", datatype: "BYTES", shape: [4, 1], data: packBytesElements(texts) };
  const shares = splitOutputs([asked(1), asked(2), asked(1)], [output], true);
  assert.deepEqual(
    shares.map(([share]) => Buffer.from(share?.data ?? [])),
    [["a"], ["zażółć", ""], ["😀"]].map((part) => Buffer.from(packBytesElements(part))),
  );
});

test("splitOutputs() drops rows beyond the batch and does not copy", () => {
  const output = bytes("Y", [4], [1, 2, 3, 4]);
  const [[share] = []] = splitOutputs([asked(2)], [output], true);
  assert.deepEqual([...(share?.data ?? [])], [1, 2]);
  assert.equal(share?.data.buffer, output.data.buffer);
});

test("splitOutputs() leaves the shape alone without a batch dimension", () => {
  assert.deepEqual(shown(splitOutputs([asked(1)], [bytes("Y", [3], [1, 2, 3]), bytes("Z", [], [4])], false)), [
    [[[3], [1, 2, 3]]],
  ]);
});

test("splitOutputs() refuses an output with fewer rows than the batch", () => {
  const message =
    "failed to split the output tensor 'Y' in responses: expected batch size of at least 3 in model output, got 1";
  for (const output of [bytes("Y", [1, 2], [1, 2]), bytes("Y", [], [1])]) {
    const expected = { code: "invalid_argument", message: message.replace("got 1", `got ${output.shape[0] ?? 0}`) };
    assert.throws(() => splitOutputs([asked(1), asked(2)], [output], true), expected);
  }
});
