/** OpenVINO's element types and their datatypes on the wire. Source: openvino/c/ov_common.h, `ov_element_type_e`, from 2026.0 on. */
import type { Tensor } from "../../core/tensor.ts";

type Datatype = Tensor["datatype"];

/** An input or output of a model. */
export interface PortInfo {
  readonly name: string;
  /** Undefined: the type has no form on the wire. */
  readonly datatype: Datatype | undefined;
  /** OpenVINO's name of it. */
  readonly typeName: string;
  /** -1 is a free size; undefined: the number of dimensions is free. */
  readonly dims: readonly number[] | undefined;
}

/** In the order of their codes. */
const NAMES: readonly string[] = [
  "dynamic",
  "boolean",
  "bf16",
  "f16",
  "f32",
  "f64",
  "i4",
  "i8",
  "i16",
  "i32",
  "i64",
  "u1",
  "u2",
  "u3",
  "u4",
  "u6",
  "u8",
  "u16",
  "u32",
  "u64",
];
const DATATYPES: ReadonlyMap<string, Datatype> = new Map([
  ["boolean", "BOOL"],
  ["bf16", "BF16"],
  ["f16", "FP16"],
  ["f32", "FP32"],
  ["f64", "FP64"],
  ["i8", "INT8"],
  ["i16", "INT16"],
  ["i32", "INT32"],
  ["i64", "INT64"],
  ["u8", "UINT8"],
  ["u16", "UINT16"],
  ["u32", "UINT32"],
  ["u64", "UINT64"],
]);
const CODES: ReadonlyMap<Datatype, number> = new Map(
  [...DATATYPES].map(([name, datatype]) => [datatype, NAMES.indexOf(name)]),
);

export function typeNameOf(code: number): string {
  return NAMES[code] ?? `type ${code}`;
}

/** Undefined: the type has no form on the wire. */
export function datatypeOf(code: number): Datatype | undefined {
  return DATATYPES.get(typeNameOf(code));
}

/** @throws RangeError for BYTES, which the library takes in a form of its own */
export function codeOf(datatype: Datatype): number {
  const code = CODES.get(datatype);
  if (code === undefined) throw new RangeError(`OpenVINO has no element type for ${datatype}`);
  return code;
}
