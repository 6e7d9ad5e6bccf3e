/** Reads and makes the small tensors of tokenizer models. Requests were checked for sizes before; rows are explicit here. */
import type { FixedDatatype } from "@nereid/wire";
import { bytesElements } from "../../core/bytes-tensor.ts";
import type { InferRequest } from "../../core/infer-request.ts";
import type { Tensor } from "../../core/tensor.ts";

export function findInput(request: InferRequest, name: string): Tensor | undefined {
  return request.inputs.find((input) => input.name === name);
}

/** Values of an integer tensor of 32 or 64 bits. */
export function intValues(tensor: Tensor): Int32Array {
  const { data, datatype } = tensor;
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const size = datatype === "INT64" || datatype === "UINT64" ? 8 : 4;
  const values = new Int32Array(data.byteLength / size);
  // Token ids and lengths fit in the low half; -1 does too.
  for (let i = 0; i < values.length; i++) values[i] = view.getInt32(i * size, true);
  return values;
}

export function floatValues(tensor: Tensor): Float32Array {
  return new Float32Array(tensor.data.slice().buffer);
}

/** Elements of a BYTES tensor as text, by row; bytes that are not UTF-8 become U+FFFD. */
export function textRows(tensor: Tensor, numRows: number): readonly (readonly string[])[] {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const texts = bytesElements(tensor).map((bytes) => decoder.decode(bytes));
  const width = numRows === 0 ? 0 : texts.length / numRows;
  return Array.from({ length: numRows }, (_, row) => texts.slice(row * width, (row + 1) * width));
}

export function int32Tensor(
  name: string,
  datatype: FixedDatatype,
  shape: readonly number[],
  values: Int32Array,
): Tensor {
  return { name, datatype, shape, data: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) };
}

export function fp32Tensor(name: string, shape: readonly number[], values: Float32Array): Tensor {
  return { name, datatype: "FP32", shape, data: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) };
}
