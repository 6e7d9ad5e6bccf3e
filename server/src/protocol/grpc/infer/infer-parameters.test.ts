import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { status } from "@grpc/grpc-js";
import { callUnary, inferRequest, openTestBed, type TestBed } from "../test-peer.test-support.ts";
import { withForwardedMetadata } from "./infer-parameters.ts";

const RESERVED = [
  "sequence_id",
  "sequence_start",
  "sequence_end",
  "priority",
  "timeout",
  "headers",
  "binary_data_output",
];
let bed: TestBed;
before(async () => {
  bed = await openTestBed();
});
after(() => bed.close());

test("withForwardedMetadata() refuses each reserved name, and its prefix", () => {
  assert.deepEqual([...withForwardedMetadata(new Map(), { "x-a": "1", host: "h" }, /^x/)], [["x-a", "1"]]);
  for (const name of [...RESERVED, "triton_x"]) {
    assert.throws(() => withForwardedMetadata(new Map(), { [name]: "1" }, /.*/), /reserved for Triton usage/, name);
  }
});

test("a request with a parameter of the reserved prefix is refused", async () => {
  const parameters = { triton_x: { int64_param: 1 } };
  await assert.rejects(callUnary(bed.client, "ModelInfer", { ...inferRequest(), parameters }), {
    code: status.INVALID_ARGUMENT,
    details: /reserved for Triton usage/,
  });
});
