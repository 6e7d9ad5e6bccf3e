/**
 * Requests of KServe V2 as bytes: HTTP with JSON or with the binary tensor extension, and gRPC (grpc_service.proto). Pure.
 */
import { type Datatype, elementSize, schema, splitBytesElements } from "@nereid/wire";
import protobuf from "protobufjs/light.js";
import { grpcFrame } from "../load/grpc-client.ts";
import { httpRequestBytes } from "../load/http-client.ts";
import type { SequenceStep } from "../plan/sequences.ts";

export type ParameterValue = string | number | boolean;

export interface InferTensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  /** As the binary extension has it. */
  readonly data: Uint8Array;
  /** Data is in this region, from this offset on, and is not sent. */
  readonly region?: SharedRegion | undefined;
}

export interface SharedRegion {
  readonly name: string;
  readonly offset: number;
  readonly byteSize: number;
}

export interface RequestedOutput {
  readonly name: string;
  readonly region?: SharedRegion | undefined;
}

export interface InferSpec {
  readonly model: string;
  /** "" = the server's choice. */
  readonly version: string;
  readonly inputs: readonly InferTensor[];
  readonly outputs: readonly RequestedOutput[];
  readonly parameters: Readonly<Record<string, ParameterValue>>;
}

export type InferEncoding =
  | {
      readonly kind: "http";
      readonly host: string;
      readonly isBinaryInput: boolean;
      readonly isBinaryOutput: boolean;
      readonly headers: readonly (readonly [name: string, value: string])[];
      /** Path in front of `/v2`. */
      readonly prefix: string;
    }
  | { readonly kind: "grpc" };

export function encodeInfer(spec: InferSpec, encoding: InferEncoding, step?: SequenceStep): Uint8Array {
  const parameters = step === undefined ? spec.parameters : { ...spec.parameters, ...stepParameters(step) };
  return encoding.kind === "grpc" ? grpcFrame(grpcMessage(spec, parameters)) : httpBytes(spec, parameters, encoding);
}

function stepParameters({ id, isStart, isEnd }: SequenceStep): Record<string, ParameterValue> {
  return { sequence_id: id, sequence_start: isStart, sequence_end: isEnd };
}

function httpBytes(
  { model, version, inputs, outputs }: InferSpec,
  parameters: Readonly<Record<string, ParameterValue>>,
  { host, isBinaryInput, isBinaryOutput, headers, prefix }: Extract<InferEncoding, { readonly kind: "http" }>,
): Uint8Array {
  const isInTail = (tensor: InferTensor): boolean => isBinaryInput && tensor.region === undefined;
  const json = Buffer.from(
    JSON.stringify({
      parameters,
      inputs: inputs.map((tensor) => jsonInput(tensor, isInTail(tensor))),
      outputs: outputs.map(({ name, region }) => ({
        name,
        parameters: region === undefined ? { binary_data: isBinaryOutput } : regionParameters(region),
      })),
    }),
  );
  const tail = inputs.filter(isInTail).map(({ data }) => data);
  const path = `${prefix}/v2/models/${encodeURIComponent(model)}${version === "" ? "" : `/versions/${version}`}/infer`;
  const own: (readonly [string, string])[] = isBinaryInput
    ? [
        ["Content-Type", "application/octet-stream"],
        ["Inference-Header-Content-Length", String(json.length)],
      ]
    : [["Content-Type", "application/json"]];
  const body = Buffer.concat([json, ...tail]);
  return httpRequestBytes({ method: "POST", path, headers: [...own, ...headers], body }, host);
}

function jsonInput(tensor: InferTensor, isInTail: boolean): object {
  const { name, datatype, shape, data, region } = tensor;
  if (region !== undefined) return { name, datatype, shape, parameters: regionParameters(region) };
  if (isInTail) return { name, datatype, shape, parameters: { binary_data_size: data.length } };
  return { name, datatype, shape, data: jsonData(tensor) };
}

function regionParameters({ name, offset, byteSize }: SharedRegion): Record<string, ParameterValue> {
  return {
    shared_memory_region: name,
    shared_memory_byte_size: byteSize,
    ...(offset > 0 && { shared_memory_offset: offset }),
  };
}

/** Values as JSON has them; integers beyond 2^53 lose digits, as in any JSON of JavaScript. */
export function jsonData({ datatype, data }: InferTensor): (string | number | boolean)[] {
  if (datatype === "BYTES") return splitBytesElements(data).map((element) => Buffer.from(element).toString("utf8"));
  const size = elementSize(datatype) ?? 1;
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  return Array.from({ length: data.length / size }, (_, k) => readElement(view, k * size, datatype));
}

function readElement(view: DataView, at: number, datatype: Datatype): number | boolean {
  switch (datatype) {
    case "BOOL":
      return view.getUint8(at) !== 0;
    case "INT8":
      return view.getInt8(at);
    case "INT16":
      return view.getInt16(at, true);
    case "INT32":
      return view.getInt32(at, true);
    case "INT64":
      return Number(view.getBigInt64(at, true));
    case "UINT8":
      return view.getUint8(at);
    case "UINT16":
      return view.getUint16(at, true);
    case "UINT32":
      return view.getUint32(at, true);
    case "UINT64":
      return Number(view.getBigUint64(at, true));
    case "FP32":
      return view.getFloat32(at, true);
    case "FP64":
      return view.getFloat64(at, true);
    default:
      throw new RangeError(`${datatype} has no form in JSON`);
  }
}

const requestType = protobuf.Root.fromJSON(schema as protobuf.INamespace).lookupType("inference.ModelInferRequest");

function grpcMessage(
  { model, version, inputs, outputs }: InferSpec,
  parameters: Readonly<Record<string, ParameterValue>>,
): Uint8Array {
  const map = (values: Readonly<Record<string, ParameterValue>>): object =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [name, grpcParameter(value)]));
  const message = {
    model_name: model,
    model_version: version,
    parameters: map(parameters),
    inputs: inputs.map(({ name, datatype, shape, region }) => ({
      name,
      datatype,
      shape,
      ...(region && { parameters: map(regionParameters(region)) }),
    })),
    outputs: outputs.map(({ name, region }) => ({
      name,
      ...(region && { parameters: map(regionParameters(region)) }),
    })),
    raw_input_contents: inputs.filter(({ region }) => region === undefined).map(({ data }) => data),
  };
  return requestType.encode(requestType.fromObject(message)).finish();
}

function grpcParameter(value: ParameterValue): object {
  if (typeof value === "boolean") return { bool_param: value };
  if (typeof value === "string") return { string_param: value };
  return Number.isInteger(value) ? { int64_param: value } : { double_param: value };
}
