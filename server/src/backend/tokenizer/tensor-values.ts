/** Reads and makes the small tensors of tokenizer models. Requests were checked for sizes before; rows are explicit here. */
import type { FixedDatatype } from "@nereid/wire";
import { bytesElements } from "../../core/bytes-tensor.ts";
import type { InferRequest } from "../../core/infer-request.ts";
import type { Tensor } from "../../core/tensor.ts";

/** Length in front of each element of a BYTES tensor. */
const LENGTH_BYTES = 4;

export function findInput(request: Pick<InferRequest, "inputs">, name: string): Tensor | undefined {
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

/** The first value of an integer tensor of 32 or 64 bits; 0 when it is empty. */
export function firstInt({ data }: Tensor): number {
  const low = (data[0] ?? 0) | ((data[1] ?? 0) << 8) | ((data[2] ?? 0) << 16);
  return low | ((data[3] ?? 0) << 24);
}

/** A tensor of one text. Its bytes are cut from Node's pool. */
export function textTensor(name: string, shape: readonly number[], text: string): Tensor {
  const size = Buffer.byteLength(text);
  const data = Buffer.allocUnsafe(LENGTH_BYTES + size);
  data.writeUInt32LE(size, 0);
  data.write(text, LENGTH_BYTES);
  return { name, datatype: "BYTES", shape, data };
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
