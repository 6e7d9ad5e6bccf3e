/** Reads the tensors of the sample backends that keep sums over sequences. */
import { bytesElements } from "../../core/bytes-tensor.ts";
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { BackendRequest, ModelSource } from "../backend.ts";

/** @throws ServerError when the configuration has another INPUT or OUTPUT, or lacks a control tensor */
export function expectAccumulator(source: ModelSource, backend: string, controls: readonly string[]): void {
  const { config } = source;
  const declared = new Set(config.sequence_batching?.control_input.map(({ name }) => name));
  for (const name of controls) {
    if (!declared.has(name)) throw invalid(source, backend, `a control_input '${name}'`);
  }
  expectVector(source, backend, "INPUT", config.input);
  expectVector(source, backend, "OUTPUT", config.output);
}

/** The sum of INPUT's elements, in 32 bits. */
export function inputSum(request: BackendRequest): number {
  const view = viewOf(tensorOf(request, "INPUT"));
  let sum = 0;
  for (let offset = 0; offset + 4 <= view.byteLength; offset += 4) sum = (sum + view.getInt32(offset, true)) | 0;
  return sum;
}

/** OUTPUT: shaped like INPUT, every element the same. */
export function filledOutput(request: BackendRequest, value: number): Tensor {
  const { shape, data: input } = tensorOf(request, "INPUT");
  const data = new Uint8Array(input.byteLength);
  const view = new DataView(data.buffer);
  for (let offset = 0; offset + 4 <= data.length; offset += 4) view.setInt32(offset, value, true);
  return { name: "OUTPUT", datatype: "INT32", shape, data };
}

/** True when any bit of a control tensor is set. */
export function isSet(request: BackendRequest, name: string): boolean {
  return tensorOf(request, name).data.some((byte) => byte !== 0);
}

/** The correlation id as a key, and its low 32 bits: what is added at a sequence's end. */
export function correlationOf(request: BackendRequest): { key: bigint | string; low: number } {
  const tensor = tensorOf(request, "CORRID");
  if (tensor.datatype === "BYTES") {
    const key = new TextDecoder().decode(bytesElements(tensor)[0]);
    return { key, low: Number.parseInt(key, 10) | 0 };
  }
  const key = viewOf(tensor).getBigUint64(0, true);
  return { key, low: Number(BigInt.asIntN(32, key)) };
}

function expectVector(
  source: ModelSource,
  backend: string,
  name: string,
  tensors: readonly { readonly name: string; readonly data_type: string; readonly dims: readonly number[] }[],
): void {
  const [tensor] = tensors;
  const fits =
    tensors.length === 1 && tensor?.name === name && tensor.data_type === "TYPE_INT32" && tensor.dims.length === 1;
  if (!fits) throw invalid(source, backend, `exactly one vector '${name}' of TYPE_INT32`);
}

/** @throws ServerError when the request has none of that name */
export function tensorOf(request: BackendRequest, name: string): Tensor {
  const tensor = request.request.inputs.find((input) => input.name === name);
  if (tensor === undefined) throw invalidArgument(`the request has no tensor '${name}'`);
  return tensor;
}

export function viewOf({ data }: Tensor): DataView {
  return new DataView(data.buffer, data.byteOffset, data.byteLength);
}

function invalid(source: ModelSource, backend: string, what: string): ServerError {
  const text = `model '${source.name}' of backend '${backend}' needs ${what}`;
  return invalidArgument(text);
}
