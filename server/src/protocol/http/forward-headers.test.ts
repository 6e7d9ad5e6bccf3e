import assert from "node:assert/strict";
import { test } from "node:test";
import type { ParameterValue } from "../../core/infer-request.ts";
import { forwardHeaders } from "./forward-headers.ts";

const RESERVED = [
  "sequence_id",
  "sequence_start",
  "sequence_end",
  "priority",
  "timeout",
  "headers",
  "binary_data_output",
];

test("forwardHeaders() makes parameters of headers that match", () => {
  const parameters = new Map<string, ParameterValue>();
  forwardHeaders(/^x/i, ["X-A", "1", "Host", "h", "xb", ""], parameters);
  assert.deepEqual(
    [...parameters],
    [
      ["X-A", "1"],
      ["xb", ""],
    ],
  );
});

test("forwardHeaders() refuses each reserved name, and its prefix", () => {
  for (const name of [...RESERVED, "triton_enable_empty_final_response", "triton_"]) {
    assert.throws(() => forwardHeaders(/.*/, [name, "1"], new Map()), /reserved for Triton usage/, name);
  }
});
