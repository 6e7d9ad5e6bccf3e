/** Inputs and outputs in shared memory, as the JSON of a request names them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { SharedMemoryObject } from "../../../../../tests/fakes/shared-memory-object.ts";
import type { ServerError } from "../../../core/server-error.ts";
import { RequestMemory } from "../../request-memory.ts";
import { SharedMemoryRegions } from "../../shared-memory.ts";
import { decodeInfer } from "./decode-infer.ts";
import type { DecodedInfer } from "./http-infer-request.ts";
import { JsonInferCodec } from "./infer-codec.ts";

const CONTENT: Uint8Array = Uint8Array.from({ length: 32 }, (_, i) => i);
const X = '{"name":"X","datatype":"UINT8","shape":[1],"data":[7]}';

interface Bed extends Disposable {
  readonly object: SharedMemoryObject;
  readonly regions: SharedMemoryRegions;
  readonly memory: RequestMemory;
  decode(text: string, more?: { readonly tail?: Uint8Array; readonly copiesRegions?: boolean }): Promise<DecodedInfer>;
}

/** One region "r" over 32 bytes. */
function openBed(): Bed {
  const object = new SharedMemoryObject(CONTENT);
  const regions = new SharedMemoryRegions(true);
  regions.register("r", object.key, 0n, 32n);
  const memory = new RequestMemory(regions);
  return {
    object,
    regions,
    memory,
    decode: async (text, { tail = new Uint8Array(0), copiesRegions = false } = {}) => {
      const json = await new JsonInferCodec().readRequest(Buffer.from(text));
      return decodeInfer(json, { modelName: "m", tail, maxInputBytes: 1000, memory, copiesRegions });
    },
    [Symbol.dispose]: () => {
      memory.release();
      regions.unregister("");
      object[Symbol.dispose]();
    },
  };
}

function input(datatype: string, more = ""): string {
  return `{"name":"X","datatype":"${datatype}","shape":[1],"parameters":{"shared_memory_region":"r","shared_memory_byte_size":5${more}}}`;
}

test("an input is the region itself, not a copy", async () => {
  using bed = openBed();
  const { inputs } = await bed.decode(`{"inputs":[${input("UINT8", ',"shared_memory_offset":3')}]}`);
  assert.deepEqual([...(inputs[0]?.data ?? [])], [3, 4, 5, 6, 7]);
  assert.equal(inputs[0]?.data.buffer, bed.regions.find("r").slice(0n, 1n).buffer);
});

for (const [what, datatype, copiesRegions] of [
  ["strings", "BYTES", false],
  ["a model whose answers are kept", "UINT8", true],
] as const) {
  test(`an input is a copy for ${what}: the client may write to the region meanwhile`, async () => {
    using bed = openBed();
    const { inputs } = await bed.decode(`{"inputs":[${input(datatype)}]}`, { copiesRegions });
    bed.regions.find("r").slice(0n, 32n).fill(99);
    assert.deepEqual([...(inputs[0]?.data ?? [])], [0, 1, 2, 3, 4]);
  });
}

test("binary inputs around one in a region keep their places in the body", async () => {
  using bed = openBed();
  const binary = X.replace('"data":[7]', '"parameters":{"binary_data_size":1}').replace('"X"', '"A"');
  const last = binary.replace('"A"', '"Z"');
  const text = `{"inputs":[${binary},${input("UINT8")},${last}]}`;
  const { inputs } = await bed.decode(text, { tail: Uint8Array.of(100, 101) });
  assert.deepEqual(
    inputs.map(({ data }) => [...data]),
    [[100], [0, 1, 2, 3, 4], [101]],
  );
});

test("an output in a region has its place there", async () => {
  using bed = openBed();
  const parameters = '{"shared_memory_region":"r","shared_memory_offset":30,"shared_memory_byte_size":2}';
  const { forms } = await bed.decode(`{"inputs":[${X}],"outputs":[{"name":"Y","parameters":${parameters}}]}`);
  const { region, offset, byteSize } = forms.get("Y")?.target ?? {};
  assert.deepEqual([region?.status.name, offset, byteSize], ["r", 30, 2]);
});

const both = (more: string): string =>
  `{"inputs":[${X}],"outputs":[{"name":"Y","parameters":{"shared_memory_region":"r",${more}}}]}`;
for (const [text, code, message] of [
  [both('"classification":1'), "invalid_argument", "Output can't set both 'shared_memory_region' and 'classification'"],
  [both('"binary_data":true'), "invalid_argument", "Output can't set both 'shared_memory_region' and 'binary_data'"],
  [
    `{"inputs":[${input("UINT8").replace('"r"', "7")}]}`,
    "internal",
    "Unable to parse 'shared_memory_region': attempt to access JSON non-string as string",
  ],
  [
    `{"inputs":[${input("UINT8", ',"shared_memory_offset":-1')}]}`,
    "internal",
    "Unable to parse 'shared_memory_offset': attempt to access JSON non-unsigned-integer as unsigned-integer",
  ],
  [
    `{"inputs":[${input("UINT8", ',"binary_data_size":1')}]}`,
    "invalid_argument",
    "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But set 'binary_data_size' 'shared_memory_region'",
  ],
] as const) {
  test(`decodeInfer() refuses: ${message}`, async () => {
    using bed = openBed();
    const isRight = (error: unknown): boolean => {
      assert.deepEqual([(error as ServerError).code, (error as ServerError).message], [code, message]);
      return true;
    };
    await assert.rejects(bed.decode(text), isRight);
  });
}
