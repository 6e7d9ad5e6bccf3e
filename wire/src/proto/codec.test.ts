import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { schema } from "../gen/schema.ts";
import { MAX_GROUP_DEPTH } from "../limits.ts";
import { GatherWriter } from "./gather-writer.ts";
import type { InferParameter } from "./infer-parameter.ts";
import { decodeInferRequest, writeInferRequest } from "./infer-request.ts";
import {
  decodeInferResponse,
  decodeStreamResponse,
  writeInferResponse,
  writeStreamResponse,
} from "./infer-response.ts";
import { NameCache } from "./name-cache.ts";
import { ProtoError } from "./proto-reader.ts";
import { contentsAs } from "./tensor-contents.ts";

// An independent codec as the oracle.
const protobuf: typeof import("protobufjs") = createRequire(import.meta.url)("protobufjs");
const root = protobuf.Root.fromJSON(schema as never);
const names = new NameCache();

function oracleEncode(type: string, value: object): Uint8Array {
  const found = root.lookupType(type);
  return found.encode(found.fromObject(value)).finish();
}

function oracleDecode(type: string, bytes: Uint8Array): Record<string, unknown> {
  const found = root.lookupType(type);
  return found.toObject(found.decode(bytes), { longs: String });
}

function written(write: (writer: GatherWriter) => void): Uint8Array {
  const writer = new GatherWriter();
  write(writer);
  const { size } = writer;
  const bytes = Buffer.concat(writer.finish());
  assert.equal(bytes.length, size);
  return bytes;
}

const PARAMETERS: ReadonlyMap<string, InferParameter> = new Map<string, InferParameter>([
  ["b", { kind: "bool", value: true }],
  ["i", { kind: "int64", value: -7 }],
  ["big", { kind: "int64", value: -(2n ** 63n) }],
  ["max", { kind: "uint64", value: 2n ** 64n - 1n }],
  ["s", { kind: "string", value: "ü".repeat(100) }],
  ["d", { kind: "double", value: 1.5 }],
  ["n", { kind: "none" }],
]);

test("decodeInferRequest() reads every field that another encoder wrote", () => {
  const bytes = oracleEncode("inference.ModelInferRequest", {
    model_name: "simple",
    model_version: "3",
    id: "größe 😀",
    parameters: {
      b: { bool_param: true },
      i: { int64_param: "-9223372036854775808" },
      u: { uint64_param: "18446744073709551615" },
      s: { string_param: "x" },
      d: { double_param: -2.25 },
      n: {},
    },
    inputs: [
      { name: "A", datatype: "FP32", shape: [2, -1, "9007199254740993"], parameters: { p: { int64_param: 5 } } },
    ],
    outputs: [{ name: "O", parameters: { classification: { int64_param: 3 } } }, { name: "P" }],
    raw_input_contents: [Buffer.from([1, 2, 3]), Buffer.alloc(0)],
  });
  const request = decodeInferRequest(bytes, names);
  assert.equal(request.modelName, "simple");
  assert.equal(request.modelVersion, "3");
  assert.equal(request.id, "größe 😀");
  assert.deepEqual(
    [...request.parameters],
    [
      ["b", { kind: "bool", value: true }],
      ["i", { kind: "int64", value: -(2n ** 63n) }],
      ["u", { kind: "uint64", value: 2n ** 64n - 1n }],
      ["s", { kind: "string", value: "x" }],
      ["d", { kind: "double", value: -2.25 }],
      ["n", { kind: "none" }],
    ],
  );
  assert.deepEqual(request.inputs[0]?.shape, [2, -1, 2 ** 53]);
  assert.deepEqual([...(request.inputs[0]?.parameters ?? [])], [["p", { kind: "int64", value: 5 }]]);
  assert.equal(request.inputs[0]?.contents, undefined);
  assert.deepEqual([...(request.outputs[0]?.parameters ?? [])], [["classification", { kind: "int64", value: 3 }]]);
  assert.equal(request.outputs[1]?.name, "P");
  assert.deepEqual(
    request.rawInputContents.map((raw) => [...raw]),
    [[1, 2, 3], []],
  );
});

test("decodeInferRequest() gives raw tensors as views of the message", () => {
  const bytes = oracleEncode("inference.ModelInferRequest", { raw_input_contents: [Buffer.alloc(100_000)] });
  assert.equal(decodeInferRequest(bytes, names).rawInputContents[0]?.buffer, bytes.buffer);
});

const contents: [member: string, values: unknown[], kind: string, datatype: string, expected: number[]][] = [
  ["bool_contents", [true, false], "BOOL", "BOOL", [1, 0]],
  ["int_contents", [-128, 127], "INT32", "INT8", [128, 127]],
  ["int_contents", [-32768, 300], "INT32", "INT16", [0, 128, 44, 1]],
  ["int_contents", [-2], "INT32", "INT32", [254, 255, 255, 255]],
  ["int64_contents", ["-9223372036854775808", 1], "INT64", "INT64", [0, 0, 0, 0, 0, 0, 0, 128, 1, 0, 0, 0, 0, 0, 0, 0]],
  ["uint_contents", [255], "UINT32", "UINT8", [255]],
  ["uint_contents", [65535], "UINT32", "UINT16", [255, 255]],
  ["uint_contents", [4294967295], "UINT32", "UINT32", [255, 255, 255, 255]],
  ["uint64_contents", ["18446744073709551615"], "UINT64", "UINT64", [255, 255, 255, 255, 255, 255, 255, 255]],
  ["fp32_contents", [1, -0], "FP32", "FP32", [0, 0, 128, 63, 0, 0, 0, 128]],
  ["fp64_contents", [1], "FP64", "FP64", [0, 0, 0, 0, 0, 0, 240, 63]],
  ["bytes_contents", [Buffer.from("ab"), Buffer.alloc(0)], "BYTES", "BYTES", [2, 0, 0, 0, 97, 98, 0, 0, 0, 0]],
];
for (const [member, values, kind, datatype, expected] of contents) {
  test(`decodeInferRequest() turns ${member} into ${datatype} data`, () => {
    const inputs = [{ name: "A", datatype, shape: [values.length], contents: { [member]: values } }];
    const [input] = decodeInferRequest(oracleEncode("inference.ModelInferRequest", { inputs }), names).inputs;
    const found = input?.contents?.[0];
    assert.equal(input?.contents?.length, 1);
    assert.equal(found?.kind, kind);
    assert.deepEqual([...(found === undefined ? [] : (contentsAs(found, datatype as "BOOL") ?? []))], expected);
  });
}

test("decodeInferRequest() takes repeated values one by one as well as packed, and joins split contents", () => {
  // input { contents { int_contents: 1 }, shape: 2, shape: 3, contents { int_contents: [2, 3], fp32_contents: 1 } }
  const input = [42, 2, 16, 1, 24, 2, 24, 3, 42, 9, 18, 2, 2, 3, 53, 0, 0, 128, 63];
  const [decoded] = decodeInferRequest(Uint8Array.from([42, input.length, ...input]), names).inputs;
  assert.deepEqual(decoded?.shape, [2, 3]);
  assert.deepEqual(
    decoded?.contents?.map(({ kind, data }) => [kind, [...data]]),
    [
      ["INT32", [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]],
      ["FP32", [0, 0, 128, 63]],
    ],
  );
});

test("contentsAs() refuses data that cannot be of that datatype", () => {
  const data = new Uint8Array(4);
  for (const datatype of ["FP16", "BF16", "INT64", "UINT32", "BOOL"] as const) {
    assert.equal(contentsAs({ kind: "INT32", data }, datatype), undefined, datatype);
  }
});

test("decodeInferRequest() skips fields that it does not know, groups among them", () => {
  const unknown = [
    0xa0, 6, 1, 0xa1, 6, 1, 2, 3, 4, 5, 6, 7, 8, 0xa2, 6, 2, 9, 9, 0xa3, 6, 8, 1, 0xa4, 6, 0xa5, 6, 1, 2, 3, 4,
  ];
  const bytes = Uint8Array.from([...unknown, 10, 1, 109, ...unknown, 8, 5]);
  assert.equal(decodeInferRequest(bytes, names).modelName, "m");
});

test("decodeInferRequest() skips groups within groups up to the limit", () => {
  const nested = (depth: number): Uint8Array =>
    Uint8Array.from([...Array(depth).fill([0xa3, 6]), ...Array(depth).fill([0xa4, 6]), [10, 1, 109]].flat());
  assert.equal(decodeInferRequest(nested(MAX_GROUP_DEPTH), names).modelName, "m");
  assert.throws(() => decodeInferRequest(nested(MAX_GROUP_DEPTH + 1), names), /nested groups/);
});

const broken: [what: string, bytes: number[]][] = [
  ["a string longer than the message", [10, 5, 97]],
  ["a length of ten bytes", [10, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]],
  ["a varint of eleven bytes", [8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]],
  ["a varint cut off", [8, 128]],
  ["field number 0", [2, 0]],
  ["wire type 7", [15]],
  ["an end of no group", [12]],
  ["an overlong encoding", [10, 2, 0xc0, 0x80]],
  ["a surrogate", [10, 3, 0xed, 0xa0, 0x80]],
  ["a packed run of no whole floats", [42, 5, 42, 3, 50, 1, 0]],
  ["a packed varint past the run", [42, 6, 42, 4, 18, 1, 128, 1]],
  ["a nested message past its parent", [42, 2, 42, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1]],
];
for (const [what, bytes] of broken) {
  test(`decodeInferRequest() refuses ${what}`, () => {
    assert.throws(() => decodeInferRequest(Uint8Array.from(bytes), names), ProtoError);
  });
}

test("decodeInferRequest() refuses or reads every truncation and every changed byte of a message without another error", () => {
  const good = oracleEncode("inference.ModelInferRequest", {
    model_name: "m",
    parameters: { k: { int64_param: 300 } },
    inputs: [{ name: "A", datatype: "INT32", shape: [2], contents: { int_contents: [1, 2], fp64_contents: [1] } }],
    raw_input_contents: [Buffer.from([1, 2])],
  });
  let refused = 0;
  for (let at = 0; at < good.length; at++) {
    for (const value of [0, 1, 127, 128, 255]) {
      for (const bytes of [good.slice(0, at), Uint8Array.from(good, (byte, k) => (k === at ? value : byte))]) {
        try {
          decodeInferRequest(bytes, names);
        } catch (error) {
          refused += 1;
          assert.equal(error instanceof ProtoError, true);
        }
      }
    }
  }
  assert.notEqual(refused, 0);
});

test("writeInferRequest() writes what another decoder and our own read back", () => {
  const request = {
    modelName: "simple",
    modelVersion: "",
    id: "é",
    parameters: PARAMETERS,
    inputs: [
      { name: "M", datatype: "FP32" as const, shape: [2], data: undefined, parameters: PARAMETERS },
      { name: "A", datatype: "INT32" as const, shape: [1, -1, 300], data: Uint8Array.from([1, 2, 3, 4]) },
    ],
    outputs: [{ name: "O", parameters: PARAMETERS }],
  };
  const bytes = written((writer) => writeInferRequest(writer, request));
  const read = decodeInferRequest(bytes, names);
  assert.deepEqual([...read.parameters], [...PARAMETERS]);
  assert.deepEqual([...(read.inputs[0]?.parameters ?? [])], [...PARAMETERS]);
  assert.deepEqual(read.inputs[1]?.shape, [1, -1, 300]);
  assert.deepEqual(
    read.rawInputContents.map((one) => [...one]),
    [[1, 2, 3, 4]],
  );
  const other = oracleDecode("inference.ModelInferRequest", bytes);
  assert.equal(other.id, "é");
  assert.deepEqual((other.parameters as Record<string, unknown>).big, { int64_param: "-9223372036854775808" });
});

const RESPONSE = {
  modelName: "simple",
  modelVersion: "1",
  id: "",
  parameters: PARAMETERS,
  outputs: [
    { name: "A", datatype: "INT32", shape: [2], data: Uint8Array.from([1, 2, 3, 4, 5, 6, 7, 8]) },
    { name: "B".repeat(200), datatype: "UINT8", shape: [600_000], data: new Uint8Array(600_000).fill(7) },
    { name: "C", datatype: "FP32", shape: [0], data: new Uint8Array(0) },
  ],
};

test("writeInferResponse() writes what another decoder and our own read back", () => {
  const bytes = written((writer) => writeInferResponse(writer, RESPONSE));
  assert.deepEqual(
    decodeInferResponse(bytes, names).outputs,
    RESPONSE.outputs.map((output) => ({
      ...output,
      data: Buffer.from(output.data),
    })),
  );
  const other = oracleDecode("inference.ModelInferResponse", bytes);
  assert.deepEqual(
    (other.raw_output_contents as Uint8Array[]).map((raw) => raw.length),
    [8, 600_000, 0],
  );
});

test("writeStreamResponse() wraps the response and puts the error beside it", () => {
  const bytes = written((writer) => writeStreamResponse(writer, RESPONSE, "wrong"));
  const { errorMessage, response } = decodeStreamResponse(bytes, names);
  assert.equal(errorMessage, "wrong");
  assert.equal(response?.outputs[1]?.data.length, 600_000);
  assert.equal(oracleDecode("inference.ModelStreamInferResponse", bytes).error_message, "wrong");
});

test("GatherWriter hands large payloads over as they are and leaves the headroom asked for", () => {
  const writer = new GatherWriter();
  writeInferResponse(writer, RESPONSE);
  const pieces = writer.finish(5);
  assert.equal(pieces.length, 3);
  assert.equal(pieces[1], RESPONSE.outputs[1]?.data);
  assert.equal(decodeInferResponse(Buffer.concat(pieces).subarray(5), names).modelName, "simple");
});
