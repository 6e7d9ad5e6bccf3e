import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { schema } from "@nereid/wire";
import { decodeMessage, encodeMessage, type Message } from "./message-codec.ts";

// An independent codec as the oracle.
const protobuf: typeof import("protobufjs") = createRequire(import.meta.url)("protobufjs");
const root = protobuf.Root.fromJSON(schema as never);

function oracle(type: string, value: object): Uint8Array {
  const found = root.lookupType(`inference.${type}`);
  return found.encode(found.fromObject(value)).finish();
}

function oracleDecode(type: string, bytes: Uint8Array): object {
  const found = root.lookupType(`inference.${type}`);
  return found.toObject(found.decode(bytes), { longs: String, enums: String, bytes: Array });
}

test("encodeMessage() writes maps, oneofs, bytes, lists and 64-bit numbers that another decoder reads", () => {
  const load: Message = {
    repository_name: "",
    model_name: "größe",
    parameters: {
      config: { string_param: "{}" },
      "file:1/model.onnx": { bytes_param: new Uint8Array(5000).fill(7) },
      flag: { bool_param: false },
      number: { int64_param: -(2n ** 63n) },
    },
  };
  const read = oracleDecode("RepositoryModelLoadRequest", encodeMessage("RepositoryModelLoadRequest", load));
  assert.deepEqual(read, {
    repository_name: "",
    model_name: "größe",
    parameters: {
      config: { string_param: "{}" },
      "file:1/model.onnx": { bytes_param: new Array(5000).fill(7) },
      flag: { bool_param: false },
      number: { int64_param: "-9223372036854775808" },
    },
  });
  const trace = { settings: { trace_level: { value: ["A", "B"] }, empty: { value: [] } }, model_name: "m" };
  const other = oracleDecode("TraceSettingRequest", encodeMessage("TraceSettingRequest", trace));
  assert.deepEqual(other, { settings: { trace_level: { value: ["A", "B"] }, empty: {} }, model_name: "m" });
});

test("decodeMessage() reads configurations with defaults, enums, packed and unpacked lists, maps and floats", () => {
  const config = {
    name: "m",
    max_batch_size: 8,
    input: [{ name: "X", data_type: "TYPE_BF16", dims: ["-1", "3"], format: "FORMAT_NCHW" }],
    instance_group: [{ kind: "KIND_CPU", count: 2 }],
    parameters: { __proto__: { string_value: "p" }, a: { string_value: "b" } },
    sequence_batching: {
      direct: { minimum_slot_utilization: 0.5 },
      max_sequence_idle_microseconds: "18446744073709551615",
    },
  };
  const { config: read } = decodeMessage("ModelConfigResponse", oracle("ModelConfigResponse", { config })) as {
    readonly config: Message;
  };
  assert.deepEqual([read.name, read.max_batch_size, read.platform, read.output], ["m", 8, "", []]);
  const [input] = read.input as readonly Message[];
  assert.deepEqual(
    [input?.data_type, input?.dims, input?.format, input?.optional],
    ["TYPE_BF16", [-1, 3], "FORMAT_NCHW", false],
  );
  const batching = read.sequence_batching as Message;
  assert.equal(batching.max_sequence_idle_microseconds, 2n ** 64n - 1n);
  assert.equal((batching.direct as Message).minimum_slot_utilization, 0.5);
  assert.equal(Object.hasOwn(batching, "oldest"), false);
  assert.equal((read.parameters as Message).a !== undefined, true);
});

test("decodeMessage() skips unknown fields and refuses cut messages", () => {
  const known = oracle("ServerMetadataResponse", { name: "triton", version: "2", extensions: ["a", "b"] });
  const unknown = Uint8Array.from([0xfa, 0x07, 0x03, 1, 2, 3]);
  assert.deepEqual(decodeMessage("ServerMetadataResponse", Buffer.concat([unknown, known])), {
    name: "triton",
    version: "2",
    extensions: ["a", "b"],
  });
  assert.throws(() => decodeMessage("ServerMetadataResponse", known.subarray(0, -1)), { name: "ProtoError" });
});

test("encodeMessage() refuses names that the schema does not have", () => {
  assert.throws(() => encodeMessage("ServerLiveRequest", { nope: 1 }), /has no field nope/);
  assert.throws(() => encodeMessage("Nope", {}), /no type Nope/);
});
