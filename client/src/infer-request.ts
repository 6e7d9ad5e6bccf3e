/**
 * Encodes a KServe V2 inference request as an HTTP body: JSON, then the tensors (Triton's binary data extension).
 * Knows no server.
 */
import { encodeJson, type JsonRecord } from "./json-document.ts";
import type { InputTensor } from "./tensor.ts";

export interface RequestedOutput {
  readonly name: string;
  /** Returns that many best classes as BYTES "score:index:label" instead of the tensor (Triton's classification extension). */
  readonly classCount?: number | undefined;
}

export interface InferOptions {
  readonly inputs: readonly InputTensor[];
  /** Default: all outputs of the model. */
  readonly outputs?: readonly (string | RequestedOutput)[] | undefined;
  readonly id?: string | undefined;
  /** Parameters of the protocol (`sequence_id`, `priority`, ...) and of the model. */
  readonly parameters?: Readonly<Record<string, string | number | bigint | boolean>> | undefined;
}

export interface EncodedInferRequest {
  readonly body: Uint8Array<ArrayBuffer>;
  /** Bytes of the JSON at the beginning: the header Inference-Header-Content-Length. */
  readonly jsonLength: number;
}

export function encodeInferRequest({ inputs, outputs, id, parameters }: InferOptions): EncodedInferRequest {
  const json = encodeJson({
    id,
    parameters: { ...parameters, binary_data_output: true },
    inputs: inputs.map(describeInput),
    outputs: outputs?.map(describeOutput),
  });
  const size = inputs.reduce((sum, { data }) => sum + data.length, json.length);
  const body = new Uint8Array(size);
  body.set(json);
  let at = json.length;
  for (const { data } of inputs) {
    body.set(data, at);
    at += data.length;
  }
  return { body, jsonLength: json.length };
}

function describeInput({ name, datatype, shape, data }: InputTensor): JsonRecord {
  return { name, shape, datatype, parameters: { binary_data_size: data.length } };
}

function describeOutput(output: string | RequestedOutput): JsonRecord {
  if (typeof output === "string") return { name: output, parameters: { binary_data: true } };
  return { name: output.name, parameters: { binary_data: true, classification: output.classCount } };
}
