/** ONNX element types and our datatypes (onnx.proto, TensorProto.DataType). Knows no tensor. */
import type { Tensor } from "../../core/tensor.ts";

type Datatype = Tensor["datatype"];

export interface ElementType {
  /** `ONNXTensorElementDataType`. */
  readonly code: number;
  /** Spelling in ONNX. */
  readonly name: string;
  /** Undefined when no request can carry the type. */
  readonly datatype: Datatype | undefined;
  /** Bytes of an element; 0 for strings and unsupported types. */
  readonly byteLength: number;
}

const TABLE: readonly (readonly [string, Datatype | undefined, number])[] = [
  ["UNDEFINED", undefined, 0],
  ["FLOAT", "FP32", 4],
  ["UINT8", "UINT8", 1],
  ["INT8", "INT8", 1],
  ["UINT16", "UINT16", 2],
  ["INT16", "INT16", 2],
  ["INT32", "INT32", 4],
  ["INT64", "INT64", 8],
  ["STRING", "BYTES", 0],
  ["BOOL", "BOOL", 1],
  ["FLOAT16", "FP16", 2],
  ["DOUBLE", "FP64", 8],
  ["UINT32", "UINT32", 4],
  ["UINT64", "UINT64", 8],
  ["COMPLEX64", undefined, 0],
  ["COMPLEX128", undefined, 0],
  ["BFLOAT16", "BF16", 2],
];

const BY_CODE: readonly ElementType[] = TABLE.map(([name, datatype, byteLength], code) => ({
  code,
  name,
  datatype,
  byteLength,
}));
const UNDEFINED: ElementType = { code: 0, name: "UNDEFINED", datatype: undefined, byteLength: 0 };
const BY_DATATYPE: ReadonlyMap<Datatype, ElementType> = new Map(
  BY_CODE.flatMap((type) => (type.datatype === undefined ? [] : [[type.datatype, type] as const])),
);

/** The type of a code; "UNDEFINED" for types newer than this table (INT4, FP8). */
export function elementTypeOfCode(code: number): ElementType {
  return BY_CODE[code] ?? UNDEFINED;
}

export function elementTypeOf(datatype: Datatype): ElementType {
  return BY_DATATYPE.get(datatype) ?? UNDEFINED;
}
