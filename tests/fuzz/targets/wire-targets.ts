/** Readers of requests: frames of HTTP/2, field blocks, gRPC messages, JSON with binary tensors (RFC 9113, RFC 7541, KServe V2). */
import assert from "node:assert/strict";
import { Cancellation } from "../../../server/src/core/cancellation.ts";
import type { ServedModel } from "../../../server/src/core/model-server.ts";
import { ProtoInferCodec, prepareInfer } from "../../../server/src/protocol/grpc/infer/infer-codec.ts";
import { GrpcError } from "../../../server/src/protocol/grpc/status.ts";
import { encode, inferRequest } from "../../../server/src/protocol/grpc/test-peer.test-support.ts";
import { FrameReader } from "../../../server/src/protocol/grpc/transport/message-reader.ts";
import { decodeInfer } from "../../../server/src/protocol/http/infer/decode-infer.ts";
import { JsonInferCodec } from "../../../server/src/protocol/http/infer/infer-codec.ts";
import { parseDocument } from "../../../server/src/protocol/http/json/json-access.ts";
import { Http2Fault, PREFACE } from "../../../server/src/protocol/http2/codes.ts";
import { FrameParser } from "../../../server/src/protocol/http2/frame-parser.ts";
import { HeaderDecoder } from "../../../server/src/protocol/http2/header-decoder.ts";
import { HeaderEncoder } from "../../../server/src/protocol/http2/header-encoder.ts";
import { RequestMemory } from "../../../server/src/protocol/request-memory.ts";
import { SharedMemoryRegions } from "../../../server/src/protocol/shared-memory.ts";
import {
  type Datatype,
  decodeInferRequest,
  GatherWriter,
  type InferRequestMessage,
  NameCache,
  ProtoError,
  writeInferRequest,
} from "../../../wire/src/index.ts";
import { mutateJson } from "../../support/mutate-json.ts";
import type { Random } from "../../support/random.ts";
import { type FuzzTarget, isServerError } from "../fuzz-target.ts";
import { mutateBytes } from "../mutators/mutate-bytes.ts";
import { frameBytes, mutateFrames } from "../mutators/mutate-frames.ts";
import { mutateJsonOrValue } from "../mutators/mutate-json-or-value.ts";
import { mutateProto } from "../mutators/mutate-proto.ts";

const MAX_LIST_BYTES = 16_384;
const MAX_INPUT_BYTES = 65_536;
const MAX_CASE_MS = 100;

const MODEL = {
  name: "m",
  config: { max_batch_size: 8 },
  inputs: new Map([["INPUT0", { name: "INPUT0", datatype: "INT32", shape: [1, 16] }]]),
  decoupled: false,
  label: () => "",
} as unknown as ServedModel;

const HEADS: readonly Buffer[] = [
  new HeaderEncoder().encode(
    [":method", "POST", ":scheme", "http", ":path", "/a", "content-type", "application/grpc"],
    false,
  ),
  Buffer.from("828684418cf1e3c2e5f23a6ba0ab90f4ff", "hex"), // RFC 7541, C.4.1
  Buffer.from("3fe11f400a637573746f6d2d6b65790d637573746f6d2d686561646572", "hex"), // a resize, then C.2.1
];

const CONVERSATION: Buffer = Buffer.concat([
  PREFACE,
  frameBytes(4, 0, 0, Buffer.from("000300000064", "hex")),
  frameBytes(1, 4, 1, HEADS[0] ?? Buffer.alloc(0)),
  frameBytes(0, 8, 1, Buffer.from([2, 104, 105, 0, 0])),
  frameBytes(8, 0, 0, Buffer.from([0, 0, 0, 9])),
  frameBytes(1, 5, 3, HEADS[1] ?? Buffer.alloc(0)),
  frameBytes(6, 0, 0, Buffer.alloc(8)),
  frameBytes(0, 1, 1, Buffer.alloc(0)),
]);

/** Cuts the bytes into frames, in pieces, and reads the field blocks of one connection. */
const frames: FuzzTarget = {
  name: "http2-frames",
  seeds: [CONVERSATION],
  mutate: (seed, random) => Buffer.concat([PREFACE, mutateFrames(seed.subarray(PREFACE.length), random)]),
  read: (input) => {
    const fields = new HeaderDecoder(MAX_LIST_BYTES);
    let dataBytes = 0;
    const parser = new FrameParser({
      dataStart: (_, length, padding) => assert.ok(padding <= length),
      data: (_, piece) => {
        dataBytes += piece.length;
      },
      frame: (type, _flags, _id, payload) => {
        if (type === 1 || type === 9) fields.decode(payload);
      },
    });
    for (let at = 0, size = 1; at < input.length; at += size, size = 1 + ((size * 7) % 61))
      parser.push(input.subarray(at, at + size));
    assert.ok(dataBytes <= input.length);
  },
  isRefusal: (error) => error instanceof Http2Fault,
  maxCaseMs: MAX_CASE_MS,
};

const fieldBlocks: FuzzTarget = {
  name: "hpack",
  seeds: HEADS,
  mutate: mutateBytes,
  read: (input) => {
    const decoder = new HeaderDecoder(MAX_LIST_BYTES);
    const { fields } = decoder.decode(input);
    assert.deepEqual(new HeaderDecoder(MAX_LIST_BYTES).decode(input).fields, fields);
    const again = new HeaderDecoder(2 ** 30).decode(new HeaderEncoder().encode(fields, false)).fields;
    assert.deepEqual(again, fields);
  },
  isRefusal: (error) => error instanceof Http2Fault,
  maxCaseMs: MAX_CASE_MS,
};

const GRPC = new ProtoInferCodec();

const grpcMessages: FuzzTarget = {
  name: "grpc-infer",
  seeds: [
    Buffer.from(encode("inference.ModelInferRequest", inferRequest())),
    Buffer.from(
      encode("inference.ModelInferRequest", {
        model_name: "m",
        id: "7",
        parameters: { sequence_id: { int64_param: 5 }, priority: { uint64_param: 2 }, timeout: { int64_param: 9 } },
        inputs: [{ name: "INPUT0", datatype: "FP32", shape: [1, 2], contents: { fp32_contents: [1, 2.5] } }],
        outputs: [{ name: "OUT", parameters: { classification: { int64_param: 3 } } }],
      }),
    ),
  ],
  mutate: mutateProto,
  read: (input) => {
    const message = GRPC.decode(input);
    // Dimensions beyond the safe integers are rounded, and refused afterwards.
    if (message.inputs.every(({ shape }) => shape.every(Number.isSafeInteger))) expectSameAgain(message);
    prepareInfer(message, MODEL, {
      metadata: {},
      forwardPattern: undefined,
      cancellation: new Cancellation(),
      trace: undefined,
      memory: new RequestMemory(new SharedMemoryRegions(true)),
    });
  },
  isRefusal: (error) => error instanceof ProtoError || error instanceof GrpcError || isServerError(error),
  maxCaseMs: MAX_CASE_MS,
};

/** A message as our client writes them (raw tensors, inputs without parameters) is the same when it is written and read again. */
function expectSameAgain(message: InferRequestMessage): void {
  const inputs = message.inputs.map(({ name, datatype, shape }, i) => ({
    ...{ name, datatype: datatype as Datatype, shape },
    data: message.rawInputContents[i] ?? new Uint8Array(0),
  }));
  const writer = new GatherWriter((size) => Buffer.allocUnsafe(size));
  writeInferRequest(writer, { ...message, inputs });
  const again = decodeInferRequest(Buffer.concat(writer.finish()), new NameCache());
  const { modelName, modelVersion, id, parameters, outputs } = message;
  const { rawInputContents, inputs: inputsAgain, ...rest } = again;
  assert.deepEqual(rest, { modelName, modelVersion, id, parameters, outputs });
  assert.deepEqual(
    inputsAgain.map(({ name, datatype, shape }) => ({ name, datatype, shape })),
    message.inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape })),
  );
}

const grpcPrefixes: FuzzTarget = {
  name: "grpc-messages",
  seeds: [Buffer.concat([Buffer.from([0, 0, 0, 0, 5]), Buffer.from("hello"), Buffer.from([1, 0, 0, 0, 0])])],
  mutate: mutateBytes,
  read: (input) => {
    const reader = new FrameReader(1000);
    let numBytes = 0;
    for (let at = 0; at < input.length; at += 3) {
      reader.push(input.subarray(at, at + 3));
      for (let message = reader.next(); message !== undefined; message = reader.next()) numBytes += message.data.length;
    }
    assert.ok(numBytes <= input.length);
  },
  isRefusal: (error) => error instanceof GrpcError,
  maxCaseMs: MAX_CASE_MS,
};

const HTTP = new JsonInferCodec();
const JSON_SEEDS: readonly string[] = [
  '{"id":"1","parameters":{"sequence_id":3,"sequence_start":true,"priority":1,"timeout":5,"x":1.5},"inputs":[{"name":"A","datatype":"INT32","shape":[1,2],"data":[[1,2]]},{"name":"B","datatype":"BYTES","shape":[2],"data":["a","\\u00e9"]}],"outputs":[{"name":"C","parameters":{"classification":2,"binary_data":true}}]}',
  '{"inputs":[{"name":"A","datatype":"FP32","shape":[1,4],"parameters":{"binary_data_size":16}},{"name":"B","datatype":"BOOL","shape":[2],"data":[true,false]}]}',
  '{"inputs":[{"name":"A","datatype":"FP64","shape":[2],"data":[1e300,-0.5]},{"name":"B","datatype":"UINT64","shape":[1],"data":[18446744073709551615]}]}',
];
/** Between the JSON and the binary tensors behind it. */
const TAIL_MARK = 0xff;

/** A request of the V2 protocol: JSON, then binary tensors. */
const v2Requests: FuzzTarget = {
  name: "v2-json",
  seeds: JSON_SEEDS.map((json) => {
    const tail = Buffer.alloc(json.includes("binary_data_size") ? 16 : 0, 1);
    return Buffer.concat([Buffer.from(json), Buffer.from([TAIL_MARK]), tail]);
  }),
  mutate: mutateV2,
  read: async (input) => {
    const end = input.lastIndexOf(TAIL_MARK);
    const json = await HTTP.readRequest(Buffer.from(input.subarray(0, end < 0 ? input.length : end)));
    const memory = new RequestMemory(new SharedMemoryRegions(true));
    const tail = end < 0 ? Buffer.alloc(0) : input.subarray(end + 1);
    const { inputs } = decodeInfer(json, {
      modelName: "m",
      tail,
      maxInputBytes: MAX_INPUT_BYTES,
      memory,
      copiesRegions: false,
    });
    for (const { data } of inputs) assert.ok(data.length <= MAX_INPUT_BYTES + tail.length);
  },
  isRefusal: isServerError,
  maxCaseMs: MAX_CASE_MS,
};

function mutateV2(seed: Buffer, random: Random): Buffer {
  const end = seed.lastIndexOf(TAIL_MARK);
  const json = mutateJsonOrValue(seed.subarray(0, end), random);
  const tail = random.below(4) === 0 ? random.bytes(random.pick([0, 15, 16, 17, 40])) : seed.subarray(end + 1);
  return Buffer.concat([json, Buffer.from([TAIL_MARK]), tail]);
}

/** Not JSON, but what RapidJSON reads for Triton (kParseNanAndInfFlag). */
const NOT_FINITE = /NaN|Inf/;

/** Whatever is read, JSON.parse reads too. */
const documents: FuzzTarget = {
  name: "json-document",
  seeds: [
    ...JSON_SEEDS,
    '{"parameters":{"config":"{}","file:1/x":"QUFB"},"a":[null,true,-0,1e5,"\\ud83d\\ude00"]}',
  ].map((text) => Buffer.from(text)),
  mutate: (seed, random) => mutateJson(seed.toString(), random),
  read: (input) => {
    parseDocument(input);
    const [text = ""] = input.toString("utf8").split("\0", 1); // RapidJSON ends there
    if (!NOT_FINITE.test(text)) JSON.parse(text);
  },
  isRefusal: isServerError,
  maxCaseMs: MAX_CASE_MS,
};

export const WIRE_TARGETS: readonly FuzzTarget[] = [
  frames,
  fieldBlocks,
  grpcMessages,
  grpcPrefixes,
  v2Requests,
  documents,
];
