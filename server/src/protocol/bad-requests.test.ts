/** The same bad inference requests over HTTP and gRPC: one refusal, except where Triton's two front ends differ. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Cancellation } from "../core/cancellation.ts";
import type { ServedModel } from "../core/model-server.ts";
import { ServerError } from "../core/server-error.ts";
import { ProtoInferCodec, prepareInfer } from "./grpc/infer/infer-codec.ts";
import { encode } from "./grpc/test-peer.test-support.ts";
import { decodeInfer } from "./http/infer/decode-infer.ts";
import { JsonInferCodec } from "./http/infer/infer-codec.ts";
import { RequestMemory } from "./request-memory.ts";
import { SharedMemoryRegions } from "./shared-memory.ts";

const MODEL = {
  name: "m",
  config: { max_batch_size: 0 },
  inputs: new Map([["X", { name: "X", datatype: "INT32", shape: [1] }]]),
  decoupled: false,
} as unknown as ServedModel;

const HTTP = new JsonInferCodec();
const GRPC = new ProtoInferCodec();

/** Code and text of a refusal; "taken" when there is none. */
async function outcomeOf(run: () => unknown): Promise<string> {
  try {
    await run();
    return "taken";
  } catch (error) {
    const { code, message } = ServerError.from(error);
    return `${code}: ${message}`;
  }
}

function overHttp(request: object): Promise<string> {
  return outcomeOf(async () => {
    const memory = new RequestMemory(new SharedMemoryRegions(true));
    const json = await HTTP.readRequest(Buffer.from(JSON.stringify(request)));
    decodeInfer(json, {
      modelName: "m",
      tail: Buffer.alloc(0),
      maxInputBytes: 1000,
      memory,
      copiesRegions: false,
    });
  });
}

function overGrpc(request: object): Promise<string> {
  return outcomeOf(() => {
    const message = GRPC.decode(encode("inference.ModelInferRequest", { model_name: "m", ...request }));
    prepareInfer(message, MODEL, {
      metadata: {},
      forwardPattern: undefined,
      cancellation: new Cancellation(),
      trace: undefined,
      memory: new RequestMemory(new SharedMemoryRegions(true)),
    });
  });
}

type Json = string | number | boolean;

/** A parameter as both protocols write it. */
function grpcParameters(parameters: Readonly<Record<string, Json>>): object {
  return Object.fromEntries(
    Object.entries(parameters).map(([key, value]) => {
      if (typeof value === "string") return [key, { string_param: value }];
      return [key, typeof value === "boolean" ? { bool_param: value } : { int64_param: value }];
    }),
  );
}

interface BadRequest {
  readonly parameters?: Readonly<Record<string, Json>>;
  readonly datatype?: string;
  readonly data?: readonly number[] | undefined;
  readonly inputParameters?: Readonly<Record<string, Json>>;
  readonly outputParameters?: Readonly<Record<string, Json>>;
}

function send({
  parameters = {},
  datatype = "INT32",
  inputParameters = {},
  outputParameters = {},
  ...more
}: BadRequest) {
  const data = "data" in more ? more.data : [1];
  const head = { name: "X", datatype, shape: [1] };
  const http = {
    parameters,
    inputs: [{ ...head, parameters: inputParameters, ...(data === undefined ? {} : { data }) }],
    outputs: [{ name: "Y", parameters: outputParameters }],
  };
  const grpc = {
    parameters: grpcParameters(parameters),
    inputs: [
      {
        ...head,
        parameters: grpcParameters(inputParameters),
        ...(data === undefined ? {} : { contents: { int_contents: data } }),
      },
    ],
    outputs: [{ name: "Y", parameters: grpcParameters(outputParameters) }],
  };
  return Promise.all([overHttp(http), overGrpc(grpc)]);
}
const REGION = { shared_memory_region: "r", shared_memory_byte_size: 4 };
const UNSIGNED = "attempt to access JSON non-unsigned-integer as unsigned-integer";
const TEXT = "attempt to access JSON non-string as string";
const FLAG = "attempt to access JSON non-boolean as boolean";
const EXPLICIT =
  "invalid_argument: unexpected explicit tensor data for input tensor 'X' for model 'm' of type 'INT32', expected datatype";
const NO_REGION = "not_found: Unable to find shared memory region: 'r'";

/** Texts differ as Triton's do: its HTTP front end reports a wrong type as the JSON parser's internal error. */
const TABLE: readonly (readonly [what: string, request: BadRequest, http: string, grpc: string])[] = [
  ["nothing wrong", {}, "taken", "taken"],
  ["an input in a region that is not registered", { data: undefined, inputParameters: REGION }, NO_REGION, NO_REGION],
  ["an output in a region that is not registered", { outputParameters: REGION }, NO_REGION, NO_REGION],
  [
    "an output in a region and as classes",
    { outputParameters: { ...REGION, classification: 1 } },
    "invalid_argument: Output can't set both 'shared_memory_region' and 'classification'",
    "invalid_argument: output can't set both 'shared_memory_region' and 'classification'",
  ],
  [
    "a reserved parameter",
    { parameters: { triton_x: 1 } },
    "invalid_argument: parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
    "invalid_argument: parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with 'triton_' are allowed: triton_enable_empty_final_response",
  ],
  [
    "a sequence id that is a flag",
    { parameters: { sequence_id: true } },
    `internal: Unable to parse 'sequence_id': ${TEXT}`,
    "invalid_argument: invalid value type for 'sequence_id' parameter, expected int64_param or string_param.",
  ],
  [
    "a sequence id that is too long",
    { parameters: { sequence_id: "a".repeat(129) } },
    "unsupported: string correlation ID cannot be longer than 128 characters",
    "unsupported: string correlation ID cannot be longer than 128 characters",
  ],
  [
    "a sequence flag that is a number",
    { parameters: { sequence_start: 1 } },
    `internal: Unable to parse 'sequence_start': ${FLAG}`,
    "invalid_argument: invalid value type for 'sequence_start' parameter, expected bool_param.",
  ],
  [
    "a sequence flag that is a text",
    { parameters: { sequence_end: "x" } },
    `internal: Unable to parse 'sequence_end': ${FLAG}`,
    "invalid_argument: invalid value type for 'sequence_end' parameter, expected bool_param.",
  ],
  [
    "a priority that is a text",
    { parameters: { priority: "1" } },
    `internal: Unable to parse 'priority': ${UNSIGNED}`,
    "invalid_argument: invalid value type for 'priority' parameter, expected int64_param or uint64_param.",
  ],
  [
    "a priority below 0",
    { parameters: { priority: -1 } },
    `internal: Unable to parse 'priority': ${UNSIGNED}`,
    "invalid_argument: invalid value for 'priority', expected value >= 0.",
  ],
  [
    "a timeout that is a text",
    { parameters: { timeout: "1" } },
    `internal: Unable to parse 'timeout': ${UNSIGNED}`,
    "invalid_argument: invalid value type for 'timeout' parameter, expected int64_param.",
  ],
  ["a timeout below 0", { parameters: { timeout: -1 } }, `internal: Unable to parse 'timeout': ${UNSIGNED}`, "taken"],
  [
    "an unknown datatype",
    { datatype: "INT99" },
    "invalid_argument: invalid datatype for input X",
    `${EXPLICIT} '<invalid>'`,
  ],
  ["no datatype", { datatype: "" }, "invalid_argument: invalid datatype for input X", `${EXPLICIT} '<invalid>'`],
  ["integers for floats, which JSON does not tell apart", { datatype: "FP32" }, "taken", `${EXPLICIT} 'FP32'`],
  [
    "FP16 that is not binary",
    { datatype: "FP16" },
    "invalid_argument: receiving FP16 data via JSON is not supported. Please use the binary data format for input X",
    `${EXPLICIT} 'FP16'`,
  ],
  [
    "an input without data",
    { data: undefined },
    "invalid_argument: Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But no field is set",
    "invalid_argument: unable to find data for input tensor 'X' for model 'm' in request.",
  ],
  [
    "a region whose name is a number",
    { data: undefined, inputParameters: { ...REGION, shared_memory_region: 1 } },
    `internal: Unable to parse 'shared_memory_region': ${TEXT}`,
    "invalid_argument: invalid value type for 'shared_memory_region' parameter for tensor 'X', expected string_param.",
  ],
  [
    "a part of a region whose size is a text",
    { data: undefined, inputParameters: { ...REGION, shared_memory_byte_size: "4" } },
    `internal: Unable to parse 'shared_memory_byte_size': ${UNSIGNED}`,
    "invalid_argument: invalid value type for 'shared_memory_byte_size' parameter for tensor 'X', expected int64_param.",
  ],
  [
    "a number of classes that is a text",
    { outputParameters: { classification: "1" } },
    `internal: Unable to set 'classification': ${UNSIGNED}`,
    "invalid_argument: invalid value type for 'classification' parameter, expected int64_param",
  ],
  [
    "a number of classes below 0",
    { outputParameters: { classification: -1 } },
    `internal: Unable to set 'classification': ${UNSIGNED}`,
    "invalid_argument: invalid value for 'classification' parameter, expected >= 0",
  ],
  [
    "no classes, which is the tensor itself over HTTP",
    { outputParameters: { classification: 0 } },
    "taken",
    "invalid_argument: invalid value for 'classification' parameter, expected >= 0",
  ],
];

for (const [what, request, http, grpc] of TABLE) {
  test(`an inference request with ${what} ends alike over HTTP and gRPC, but for Triton's differences`, async () => {
    assert.deepEqual(await send(request), [http, grpc]);
  });
}
