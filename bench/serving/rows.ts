/** Rows of the benchmark: a request, its number of clients, its comparisons, and Triton's CPU time elsewhere. */
import { type GrpcRequest, startGrpcLoad } from "./grpc-load.ts";
import { type HttpRequest, startHttpLoad } from "./http-load.ts";
import type { Load } from "./load.ts";
import { type BenchTensor, binaryRequest, grpcMessage, jsonRequest } from "./messages.ts";

export type Protocol = "http" | "grpc";

export interface Row {
  readonly name: string;
  readonly protocol: Protocol;
  readonly clients: number;
  readonly requestBytes: number;
  /** Server CPU in us a request that Triton 2.70.0 was seen to take, on another machine with 2 cores of its class. */
  readonly tritonCpuUs: readonly [low: number, high: number] | undefined;
  start(port: number, host?: string): Load;
}

const VECTOR = 16;
const INTEGERS = Int32Array.from({ length: VECTOR }, (_, i) => i * 37);
const SIMPLE: readonly BenchTensor[] = ["INPUT0", "INPUT1"].map((name) => ({
  name,
  datatype: "INT32",
  shape: [1, VECTOR],
  values: INTEGERS,
}));
const SMALL: readonly BenchTensor[] = [
  { name: "INPUT0", datatype: "FP32", shape: [1, VECTOR], values: floats(VECTOR) },
];
const KB_600 = 600 * 1024;
const MB = 1024 * 1024;
const STREAM = "/inference.GRPCInferenceService/ModelStreamInfer";
const UNARY = "/inference.GRPCInferenceService/ModelInfer";
const HEALTH: HttpRequest = { method: "GET", path: "/v2/health/ready", headers: [], body: new Uint8Array(0) };

export const ROWS: readonly Row[] = [
  http("HTTP health", HEALTH, 16, [23, 23]),
  http("HTTP simple JSON", jsonRequest("simple", SIMPLE), 1, [127, 127]),
  http("HTTP simple JSON", jsonRequest("simple", SIMPLE), 16, [58, 65]),
  http("HTTP simple binary", binaryRequest("simple", SIMPLE), 16, [59, 68]),
  http("HTTP batched identity binary", binaryRequest("identity_batch", SMALL), 1, [164, 164]),
  http("HTTP batched identity binary", binaryRequest("identity_batch", SMALL), 16, [44, 54]),
  http("HTTP batched identity binary, delayed", binaryRequest("identity_delayed", SMALL), 1, undefined),
  http("HTTP identity 600 KB binary", binaryRequest("identity_fp32", large(KB_600)), 4, undefined),
  http("HTTP identity 1 MB binary", binaryRequest("identity_fp32", large(MB)), 1, [1606, 1606]),
  http("HTTP identity 1 MB binary", binaryRequest("identity_fp32", large(MB)), 4, [1237, 1237]),
  http("HTTP identity 600 KB as JSON", jsonRequest("identity_fp32", large(KB_600)), 4, undefined),
  http("HTTP identity 1 MB as JSON", jsonRequest("identity_fp32", large(MB)), 4, [63_089, 63_089]),
  grpc("gRPC unary simple", unary("simple", SIMPLE), 1, 1, [206, 215]),
  grpc("gRPC unary simple", unary("simple", SIMPLE), 4, 16, [70, 81]),
  grpc("gRPC unary batched identity", unary("identity_batch", SMALL), 4, 16, [64, 64]),
  grpc("gRPC unary identity 600 KB", unary("identity_fp32", large(KB_600)), 2, 4, undefined),
  grpc("gRPC stream simple", stream("simple", SIMPLE), 1, 1, [205, 205]),
  grpc("gRPC stream simple", stream("simple", SIMPLE), 4, 16, [66, 66]),
  grpc("gRPC stream identity 600 KB", stream("identity_fp32", large(KB_600)), 2, 4, undefined),
];

function http(name: string, request: HttpRequest, clients: number, tritonCpuUs: Row["tritonCpuUs"]): Row {
  const start = (port: number, host?: string): Load => startHttpLoad(port, request, clients, host);
  return { name, protocol: "http", clients, requestBytes: request.body.length, tritonCpuUs, start };
}

function grpc(
  name: string,
  request: GrpcRequest,
  connections: number,
  clients: number,
  tritonCpuUs: Row["tritonCpuUs"],
): Row {
  const start = (port: number, host?: string): Load => startGrpcLoad(port, request, connections, clients, host);
  return { name, protocol: "grpc", clients, requestBytes: request.message.length, tritonCpuUs, start };
}

function unary(model: string, tensors: readonly BenchTensor[]): GrpcRequest {
  return { path: UNARY, message: grpcMessage(model, tensors), isStream: false };
}

function stream(model: string, tensors: readonly BenchTensor[]): GrpcRequest {
  return { path: STREAM, message: grpcMessage(model, tensors), isStream: true };
}

function large(numBytes: number): BenchTensor[] {
  const count = numBytes / Float32Array.BYTES_PER_ELEMENT;
  return [{ name: "INPUT0", datatype: "FP32", shape: [count], values: floats(count) }];
}

/** The same numbers in every run, with as many digits as weights and images have. */
function floats(count: number): Float32Array {
  let state = 12_345;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return state / 2 ** 31 - 1;
  });
}
