/** Values as tensors in the datatype and shape that a model declares. Pure. */
import { elementSize, packBytesElements } from "@nereid/wire";
import { numberToBf16 } from "../core/bf16.ts";
import { numberToFp16 } from "../core/fp16.ts";
import type { TensorMetadata } from "../core/model-server.ts";
import { invalidArgument } from "../core/server-error.ts";
import type { Tensor } from "../core/tensor.ts";

type Value = number | bigint | boolean;

/** The last open dimension takes all values, other open ones are 1. */
function shapeOf({ shape }: TensorMetadata, count: number, isBatching: boolean): number[] {
  const filled = [...shape];
  const first = isBatching ? 1 : 0;
  let openAt = -1;
  for (let i = first; i < filled.length; i++) {
    if (filled[i] !== -1) continue;
    openAt = i;
    filled[i] = 1;
  }
  if (isBatching) filled[0] = 1;
  if (openAt >= 0) filled[openAt] = count;
  return filled;
}

/** @throws ServerError when the declared shape has no room for the texts */
export function textsTensor(
  input: TensorMetadata,
  texts: readonly (string | Uint8Array)[],
  isBatching: boolean,
): Tensor {
  const shape = shapeOf(input, texts.length, isBatching);
  expectRoom(input, shape, texts.length);
  return { name: input.name, datatype: "BYTES", shape, data: packBytesElements(texts) };
}

/** A text a row; without a batch dimension there is one row. */
export function textRowsTensor(input: TensorMetadata, texts: readonly string[], isBatching: boolean): Tensor {
  if (!isBatching) return textsTensor(input, texts, false);
  const shape = [texts.length, ...input.shape.slice(1).map((dim) => Math.max(1, dim))];
  expectRoom(input, shape, texts.length);
  return { name: input.name, datatype: "BYTES", shape, data: packBytesElements(texts) };
}

/** @throws ServerError when the declared shape has no room for the values */
export function valuesTensor(input: TensorMetadata, values: ArrayLike<Value>, isBatching: boolean): Tensor {
  const { name, datatype } = input;
  const shape = shapeOf(input, values.length, isBatching);
  expectRoom(input, shape, values.length);
  if (datatype === "BYTES") {
    return { name, datatype, shape, data: packBytesElements(Array.from(values, (value) => String(value))) };
  }
  const own = ownBytes(datatype, values);
  if (own !== undefined) return { name, datatype, shape, data: own };
  const size = elementSize(datatype);
  const view = new DataView(new ArrayBuffer(values.length * size));
  const write = WRITERS[datatype];
  for (let i = 0; i < values.length; i++) write(view, i * size, values[i] ?? 0);
  return { name, datatype, shape, data: new Uint8Array(view.buffer) };
}

/** Token ids already are little-endian 32-bit integers. */
function ownBytes(datatype: TensorMetadata["datatype"], values: ArrayLike<Value>): Uint8Array | undefined {
  const isSame =
    (values instanceof Int32Array && datatype === "INT32") || (values instanceof Float32Array && datatype === "FP32");
  return isSame ? new Uint8Array(values.buffer, values.byteOffset, values.byteLength) : undefined;
}

type Write = (view: DataView, at: number, value: Value) => void;

const WRITERS: Readonly<Record<Exclude<Tensor["datatype"], "BYTES">, Write>> = {
  BOOL: (view, at, value) => view.setUint8(at, Number(value) === 0 ? 0 : 1),
  UINT8: (view, at, value) => view.setUint8(at, Number(value)),
  UINT16: (view, at, value) => view.setUint16(at, Number(value), true),
  UINT32: (view, at, value) => view.setUint32(at, Number(value), true),
  UINT64: (view, at, value) => view.setBigUint64(at, BigInt.asUintN(64, BigInt(value)), true),
  INT8: (view, at, value) => view.setInt8(at, Number(value)),
  INT16: (view, at, value) => view.setInt16(at, Number(value), true),
  INT32: (view, at, value) => view.setInt32(at, Number(value), true),
  INT64: (view, at, value) => view.setBigInt64(at, BigInt.asIntN(64, BigInt(value)), true),
  FP16: (view, at, value) => view.setUint16(at, numberToFp16(Number(value)), true),
  BF16: (view, at, value) => view.setUint16(at, numberToBf16(Number(value)), true),
  FP32: (view, at, value) => view.setFloat32(at, Number(value), true),
  FP64: (view, at, value) => view.setFloat64(at, Number(value), true),
};

function expectRoom(input: TensorMetadata, shape: readonly number[], count: number): void {
  const room = shape.reduce((product, dim) => product * dim, 1);
  if (room === count) return;
  throw invalidArgument(`input '${input.name}' has room for ${room} values, and the request has ${count}`);
}
