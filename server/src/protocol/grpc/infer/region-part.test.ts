import assert from "node:assert/strict";
import { test } from "node:test";
import type { InferParameter } from "@nereid/wire";
import type { ServerError } from "../../../core/server-error.ts";
import { readRegionPart } from "./region-part.ts";

type Values = Partial<Record<"region" | "offset" | "byte_size", InferParameter>>;

const REGION: InferParameter = { kind: "string", value: "r" };
const EIGHT: InferParameter = { kind: "int64", value: 8 };

function read(values: Values): ReturnType<typeof readRegionPart> {
  const entries = Object.entries(values).map(([key, value]) => [`shared_memory_${key}`, value] as const);
  return readRegionPart({ name: "X", parameters: new Map(entries) });
}

const int64 = (value: number | bigint): InferParameter => ({ kind: "int64", value });
for (const [values, offset, byteSize] of [
  [{ byte_size: EIGHT }, 0n, 8n],
  [{ byte_size: EIGHT, offset: int64(4) }, 4n, 8n],
  [{ byte_size: int64(-1) }, 0n, 2n ** 64n - 1n],
  [{ byte_size: EIGHT, offset: int64(-8) }, 2n ** 64n - 8n, 8n],
  [{ byte_size: int64(2n ** 63n - 1n), offset: int64(-(2n ** 63n)) }, 2n ** 63n, 2n ** 63n - 1n],
] as const) {
  test(`readRegionPart() reads ${byteSize} bytes at ${offset}`, () => {
    assert.deepEqual(read({ region: REGION, ...values }), { region: "r", offset, byteSize });
  });
}

test("readRegionPart() finds nothing in other parameters", () => {
  const parameters = new Map([["classification", int64(2)]]);
  assert.equal(readRegionPart({ name: "X", parameters }), undefined);
});

for (const [values, message] of [
  [{ region: EIGHT }, "invalid value type for 'shared_memory_region' parameter for tensor 'X', expected string_param."],
  [
    { offset: EIGHT },
    "'shared_memory_offset' can not be specified without 'shared_memory_region' parameter for tensor 'X'",
  ],
  [
    { byte_size: EIGHT },
    "'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for tensor 'X'",
  ],
  [
    { region: REGION },
    "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'X'",
  ],
  [
    { region: REGION, byte_size: { kind: "uint64", value: 8 } },
    "invalid value type for 'shared_memory_byte_size' parameter for tensor 'X', expected int64_param.",
  ],
  [
    { region: REGION, byte_size: EIGHT, offset: REGION },
    "invalid value type for 'shared_memory_offset' parameter for tensor 'X', expected int64_param.",
  ],
] as [Values, string][]) {
  test(`readRegionPart() refuses: ${message}`, () => {
    const isRight = (error: unknown): boolean => {
      assert.deepEqual([(error as ServerError).code, (error as ServerError).message], ["invalid_argument", message]);
      return true;
    };
    assert.throws(() => read(values), isRight);
  });
}
