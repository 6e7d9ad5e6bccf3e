/** The bodies of the benchmark's requests, in JSON, in the binary form of HTTP, and as gRPC messages. */
import { bytesField, intField, messageField } from "../../tests/fakes/onnx-writer.ts";
import type { HttpRequest } from "./http-load.ts";

export interface BenchTensor {
  readonly name: string;
  readonly datatype: "INT32" | "INT64" | "FP32" | "BOOL" | "BYTES";
  readonly shape: readonly number[];
  /** As the datatype has them; of BOOL and BYTES the bytes of the tensor. */
  readonly values: Int32Array | BigInt64Array | Float32Array | Uint8Array;
}

export function jsonRequest(model: string, tensors: readonly BenchTensor[]): HttpRequest {
  const inputs = tensors.map(({ values, ...head }) => ({
    ...head,
    data: Array.from<number | bigint, number>(values, Number),
  }));
  return {
    method: "POST",
    path: `/v2/models/${model}/infer`,
    headers: [["Content-Type", "application/json"]],
    body: Buffer.from(JSON.stringify({ inputs })),
  };
}

export function binaryRequest(
  model: string,
  tensors: readonly BenchTensor[],
  parameters: Readonly<Record<string, number | boolean>> = {},
): HttpRequest {
  const inputs = tensors.map(({ values, ...head }) => ({
    ...head,
    parameters: { binary_data_size: values.byteLength },
  }));
  const json = Buffer.from(JSON.stringify({ inputs, parameters: { binary_data_output: true, ...parameters } }));
  return {
    method: "POST",
    path: `/v2/models/${model}/infer`,
    headers: [
      ["Content-Type", "application/octet-stream"],
      ["Inference-Header-Content-Length", String(json.length)],
    ],
    body: Buffer.concat([json, ...tensors.map(bytesOf)]),
  };
}

/** A ModelInferRequest with raw contents. */
export function grpcMessage(model: string, tensors: readonly BenchTensor[]): Uint8Array {
  const inputs = tensors.map(({ name, datatype, shape }) =>
    messageField(5, [bytesField(1, name), bytesField(2, datatype), ...shape.map((dim) => intField(3, dim))]),
  );
  return Buffer.concat([bytesField(1, model), ...inputs, ...tensors.map((tensor) => bytesField(7, bytesOf(tensor)))]);
}

function bytesOf({ values }: BenchTensor): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
