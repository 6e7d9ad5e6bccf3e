/**
 * Inference requests and responses as HTTP bodies: JSON, then the tensors (Triton's binary data extension; Open Inference
 * Protocol, "Inference Request JSON Object"). Knows no server.
 */
import { encodeUtf8, JsonLimitError, JsonSyntaxError, readV2Response, V2ResponseError } from "@nereid/wire";
import { ClientError } from "../client-error.ts";
import {
  contextOf,
  type InferRequest,
  type RequestedOutput,
  type RequestParameter,
  regionsOf,
} from "../infer-request.ts";
import { InferResult, type ParameterValue } from "../infer-result.ts";
import type { ModelTypes } from "../model-types.ts";
import type { InputTensor, RegionPart } from "../tensor.ts";
import type { HttpResponse } from "./transport.ts";

export const JSON_LENGTH_HEADER = "inference-header-content-length";

export interface InferBody {
  /** JSON first, then a view of each tensor. */
  readonly pieces: readonly Uint8Array[];
  /** Bytes of the JSON at the beginning: the header Inference-Header-Content-Length. */
  readonly jsonLength: number;
}

export function encodeInferBody({ id, parameters, inputs, outputs }: InferRequest): InferBody {
  const members = [
    ...(id === "" ? [] : [`"id":${JSON.stringify(id)}`]),
    `"parameters":${parametersText({ ...parameters, binary_data_output: true })}`,
    `"inputs":[${inputs.map(inputText).join(",")}]`,
    ...(outputs.length === 0 ? [] : [`"outputs":[${outputs.map(outputText).join(",")}]`]),
  ];
  const json = encodeUtf8(`{${members.join(",")}}`);
  const tensors = inputs.filter(({ memory }) => memory === undefined).map(({ data }) => data);
  return { pieces: [json, ...tensors], jsonLength: json.length };
}

function inputText({ name, datatype, shape, data, memory }: InputTensor): string {
  const parameters = memory === undefined ? { binary_data_size: data.length } : memoryParameters(memory);
  const head = `"name":${JSON.stringify(name)},"shape":[${shape.join(",")}],"datatype":"${datatype}"`;
  return `{${head},"parameters":${parametersText(parameters)}}`;
}

function outputText({ name, classCount, memory }: RequestedOutput): string {
  const parameters = {
    ...(memory === undefined ? { binary_data: true } : memoryParameters(memory)),
    ...(classCount === undefined ? {} : { classification: classCount }),
  };
  return `{"name":${JSON.stringify(name)},"parameters":${parametersText(parameters)}}`;
}

function memoryParameters({ region, byteSize, offset = 0 }: RegionPart): Readonly<Record<string, RequestParameter>> {
  return { shared_memory_region: region, shared_memory_byte_size: byteSize, shared_memory_offset: offset };
}

/** Integers beyond 2^53 keep their digits. */
function parametersText(parameters: Readonly<Record<string, RequestParameter>>): string {
  const members = Object.entries(parameters).map(
    ([name, value]) => `${JSON.stringify(name)}:${typeof value === "bigint" ? String(value) : JSON.stringify(value)}`,
  );
  return `{${members.join(",")}}`;
}

/** @throws ClientError for a response that violates the protocol */
export function readInferResult<M extends ModelTypes>(
  { bytes, header }: HttpResponse,
  path: string,
  request: InferRequest,
): InferResult<M> {
  const context = contextOf(request);
  const length = header(JSON_LENGTH_HEADER);
  if (length !== null && !/^\d{1,15}$/.test(length)) {
    const message = `${path}: the header ${JSON_LENGTH_HEADER} is '${length}', not a length`;
    throw new ClientError("protocol", message, context);
  }
  try {
    const response = readV2Response(bytes, length === null ? bytes.length : Number(length), regionsOf(request));
    const parameters = new Map([...response.parameters].map(([name, value]) => [name, plainParameter(value)]));
    return new InferResult({ ...response, parameters });
  } catch (error) {
    if (!isBadResponse(error)) throw error;
    throw new ClientError("protocol", `${path}: ${error.message}`, { ...context, cause: error });
  }
}

function plainParameter(value: ParameterValue | { readonly double: number }): ParameterValue {
  return typeof value === "object" && value !== null ? value.double : value;
}

function isBadResponse(error: unknown): error is Error {
  return error instanceof V2ResponseError || error instanceof JsonSyntaxError || error instanceof JsonLimitError;
}
