import assert from "node:assert/strict";
import { test } from "node:test";
import { InferRequestReader } from "@nereid/wire";
import { RequestMemory } from "../../request-memory.ts";
import { SharedMemoryRegions } from "../../shared-memory.ts";
import { JSON_LIMITS } from "../json/json-access.ts";
import { runAtOnce } from "../transport/slices.ts";
import { decodeInfer } from "./decode-infer.ts";
import type { DecodedInfer } from "./http-infer-request.ts";

const MAX_INPUT_BYTES = 1000;
const reader = new InferRequestReader(JSON_LIMITS);

function decode(input: string, { parameters = "{}", tail = "" } = {}): DecodedInfer {
  const text = Buffer.from(`{"parameters":${parameters},"inputs":[${input}]}`);
  return decodeInfer(runAtOnce(reader.read(text)), {
    modelName: "m",
    tail: Buffer.from(tail),
    maxInputBytes: MAX_INPUT_BYTES,
    memory: new RequestMemory(new SharedMemoryRegions(false)),
    copiesRegions: false,
  });
}

const input = (shape: string, data = "[1]"): string =>
  `{"name":"I","datatype":"INT32","shape":${shape},"data":${data}}`;
const binary = (size: string): string =>
  `{"name":"I","datatype":"INT8","shape":[4],"parameters":{"binary_data_size":${size}}}`;

const REFUSED: readonly (readonly [what: string, input: string, expected: RegExp])[] = [
  ["a count beyond 64 bits", input("[4294967296,4294967296,4294967296]"), /total element count to exceed maximum size/],
  ["a count of 2^64", input("[2147483648,2147483648,4]"), /total element count to exceed maximum size/],
  ["a size beyond 64 bits", input("[4611686018427387904]"), /byte size overflow for input 'I'/],
  ["a negative dimension", input("[2,-3]"), /non-unsigned-integer as unsigned-integer/],
  ["a size above the limit of inputs", input("[251]"), /has a byte_size \(1004 bytes\) that exceeds/],
  ["fewer elements than the shape says", input("[250]"), /shape does not match/],
  ["binary data that is not there", binary("5"), /expecting 1 additional bytes/],
  ["binary data of 2^63 bytes", binary("9223372036854775808"), /additional bytes for model/],
];
for (const [what, text, expected] of REFUSED) {
  test(`decodeInfer() refuses ${what}`, () => {
    assert.throws(() => decode(text, { tail: text.includes("binary") ? "abcd" : "" }), expected);
  });
}

test("decodeInfer() takes what is within the limits", () => {
  const [tensor] = decode(binary("4"), { tail: "abcd" }).inputs;
  assert.equal(Buffer.from(tensor?.data ?? []).toString(), "abcd");
  assert.deepEqual(decode(input("[1]")).inputs[0]?.shape, [1]);
});

test("decodeInfer() refuses parameters with a reserved prefix", () => {
  assert.throws(() => decode(input("[1]"), { parameters: '{"triton_x":1}' }), /reserved for Triton usage/);
  assert.equal(decode(input("[1]"), { parameters: '{"x_triton_":1}' }).parameters.get("x_triton_"), 1);
});
