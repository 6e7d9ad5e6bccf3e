import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeRequest, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import type { BackendRequest } from "../backend.ts";
import { joinRequests, splitRows } from "./batch-rows.ts";

function requestOf(values: readonly number[], outputNames: readonly string[] = ["Y"]): BackendRequest {
  const nothing = (): undefined => undefined;
  const request = fakeRequest([int32("X", [values.length, 1], values)]);
  return { request, batchSize: values.length, outputNames, respond: nothing, fail: nothing, drained: nothing };
}

test("joinRequests() lays rows end to end, and does not copy those of one request", () => {
  const [one, two] = [requestOf([1, 2]), requestOf([3])];
  const [joined] = joinRequests([one, two]);
  assert.deepEqual(
    [joined?.shape, int32Values(joined)],
    [
      [3, 1],
      [1, 2, 3],
    ],
  );
  assert.equal(joinRequests([one])[0], one.request.inputs[0]);
});

test("splitRows() deals rows out by request, and outputs by name", () => {
  const shares = splitRows(
    [requestOf([1, 2]), requestOf([3], [])],
    [int32("Y", [3, 1], [4, 5, 6]), int32("Z", [3], [7, 8, 9])],
  );
  assert.deepEqual(
    shares.map((share) => share.map((tensor) => [tensor.name, tensor.shape, int32Values(tensor)])),
    [
      [["Y", [2, 1], [4, 5]]],
      [
        ["Y", [1, 1], [6]],
        ["Z", [1], [9]],
      ],
    ],
  );
});

test("splitRows() refuses outputs with other rows than the batch", () => {
  const split = (): unknown => splitRows([requestOf([1]), requestOf([2])], [int32("Y", [1, 1], [1])]);
  assert.throws(split, /failed to split the output tensor 'Y' in responses: expected 2 rows, the model gave \[1,1\]/);
});
