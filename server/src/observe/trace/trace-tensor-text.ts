/** A tensor in a trace file: its elements as text, comma-separated and truncated. */

import { checkBytesElements, elementSize, splitBytesElements } from "@nereid/wire";
import { bf16ToNumber } from "../../core/bf16.ts";
import { fp16ToNumber } from "../../core/fp16.ts";
import { MAX_TRACED_ELEMENTS } from "../../core/limits.ts";
import type { Tensor } from "../../core/tensor.ts";

/** Decimal digits that distinguish any two FP32 values. */
const FP32_DIGITS = 9;

export interface TensorText {
  readonly name: string;
  readonly data: string;
  readonly shape: string;
  readonly dtype: string;
  /** Set when elements were omitted. */
  readonly truncated?: true;
}

/** Never throws: model output may not match its shape, and tracing must not fail a request. */
export function tensorText(tensor: Tensor): TensorText {
  const { name, datatype, shape } = tensor;
  const numElements = shape.reduce((product, dim) => product * dim, 1);
  const isCut = numElements > MAX_TRACED_ELEMENTS;
  return {
    name,
    data: elementTexts(tensor, Math.min(numElements, MAX_TRACED_ELEMENTS)).join(","),
    shape: shape.join(","),
    dtype: datatype,
    ...(isCut ? { truncated: true as const } : {}),
  };
}

function elementTexts(tensor: Tensor, count: number): string[] {
  if (tensor.datatype === "BYTES") {
    if (
      checkBytesElements(
        tensor.data,
        tensor.shape.reduce((product, dim) => product * dim, 1),
      ) !== undefined
    )
      return [];
    return splitBytesElements(tensor.data)
      .slice(0, count)
      .map((bytes) => `"${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8")}"`);
  }
  const { data } = tensor;
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const read = READERS[tensor.datatype];
  const length = Math.min(count, Math.floor(data.length / elementSize(tensor.datatype)));
  return Array.from({ length }, (_, i) => read(view, i));
}

type Reader = (view: DataView, index: number) => string;

const READERS: Readonly<Record<Exclude<Tensor["datatype"], "BYTES">, Reader>> = {
  BOOL: (view, i) => String(view.getUint8(i) === 0 ? 0 : 1),
  UINT8: (view, i) => String(view.getUint8(i)),
  UINT16: (view, i) => String(view.getUint16(2 * i, true)),
  UINT32: (view, i) => String(view.getUint32(4 * i, true)),
  UINT64: (view, i) => String(view.getBigUint64(8 * i, true)),
  INT8: (view, i) => String(view.getInt8(i)),
  INT16: (view, i) => String(view.getInt16(2 * i, true)),
  INT32: (view, i) => String(view.getInt32(4 * i, true)),
  INT64: (view, i) => String(view.getBigInt64(8 * i, true)),
  FP16: (view, i) => String(fp16ToNumber(view.getUint16(2 * i, true))),
  BF16: (view, i) => String(bf16ToNumber(view.getUint16(2 * i, true))),
  FP32: (view, i) => String(Number(view.getFloat32(4 * i, true).toPrecision(FP32_DIGITS))),
  FP64: (view, i) => String(view.getFloat64(8 * i, true)),
};
