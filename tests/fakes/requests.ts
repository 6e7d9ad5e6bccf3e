/** Requests and tensors for tests. */
import { type InferRequest, NO_PARAMETERS, NO_SEQUENCE } from "../../server/src/core/infer-request.ts";
import type { InferResponse } from "../../server/src/core/infer-response.ts";
import type { Tensor } from "../../server/src/core/tensor.ts";

export function int32(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  return { name, datatype: "INT32", shape, data: new Uint8Array(Int32Array.from(values).buffer) };
}

export function int32Values(tensor: Tensor | undefined): number[] {
  if (tensor === undefined) return [];
  const copy = new Uint8Array(tensor.data.byteLength); // slice() of a Buffer is no copy
  copy.set(tensor.data);
  return Array.from(new Int32Array(copy.buffer));
}

export function fakeRequest(inputs: readonly Tensor[], changes: Partial<InferRequest> = {}): InferRequest {
  return {
    modelName: "m",
    modelVersion: "",
    id: "",
    inputs,
    outputs: [],
    parameters: NO_PARAMETERS,
    sequence: NO_SEQUENCE,
    priority: 0,
    timeoutUs: 0,
    signal: changes.signal ?? new AbortController().signal,
    origin: { key: {}, isLast: true },
    arrivalMs: performance.now(),
    ...changes,
  };
}

export async function collect(stream: AsyncIterable<InferResponse>): Promise<InferResponse[]> {
  const responses: InferResponse[] = [];
  for await (const response of stream) responses.push(response);
  return responses;
}
