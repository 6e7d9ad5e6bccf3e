/** The elements of tensors between bytes and the arrays that models work with. Knows no shape and no request. */
import type { Datatype, FixedDatatype } from "@nereid/wire";
import { narrowToBf16, numberToBf16, widenBf16 } from "../../../core/bf16.ts";
import { packBytesElements } from "../../../core/bytes-tensor.ts";
import { narrowToFp16, numberToFp16, widenFp16 } from "../../../core/fp16.ts";

type ElementArray =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Float32Array
  | Float64Array;

const ARRAYS = {
  BOOL: Uint8Array,
  UINT8: Uint8Array,
  UINT16: Uint16Array,
  UINT32: Uint32Array,
  UINT64: BigUint64Array,
  INT8: Int8Array,
  INT16: Int16Array,
  INT32: Int32Array,
  INT64: BigInt64Array,
  FP16: Uint16Array,
  BF16: Uint16Array,
  FP32: Float32Array,
  FP64: Float64Array,
} as const satisfies Readonly<Record<FixedDatatype, unknown>>;

/** A view over bytes that start at a multiple of the element's size. */
export function arrayOver(
  datatype: FixedDatatype,
  { buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>,
): ElementArray {
  const Elements = ARRAYS[datatype];
  return new Elements(buffer, byteOffset, byteLength / Elements.BYTES_PER_ELEMENT);
}

/** The datatype that an array stands for when nothing else tells; undefined for plain numbers. */
export function datatypeOfArray(data: unknown): Datatype | undefined {
  if (data instanceof Uint8Array) return "UINT8";
  const known = Object.entries(ARRAYS).find(([name, Elements]) => name !== "FP16" && data instanceof Elements);
  if (known !== undefined) return known[0] as FixedDatatype;
  const first: unknown = Array.isArray(data) ? data[0] : data;
  if (typeof first === "string" || first instanceof Uint8Array) return "BYTES";
  return typeof first === "boolean" ? "BOOL" : undefined;
}

export interface EncodedElements {
  readonly count: number;
  readonly data: Uint8Array;
}

/** @throws TypeError saying what the tensor takes and what came */
export function encodeElements(datatype: Datatype, given: unknown, where: string): EncodedElements {
  const list = typeof given === "object" ? given : [given];
  if (datatype === "BYTES") return encodeTexts(list, where);
  const Elements = ARRAYS[datatype];
  if (list instanceof Elements) return encoded(list);
  if (datatype === "FP16" && list instanceof Float32Array) return encoded(narrowToFp16(list));
  if (datatype === "BF16" && list instanceof Float32Array) return encoded(narrowToBf16(list));
  if (Array.isArray(list)) return encoded(fromList(datatype, list, where));
  throw new TypeError(`${where} is ${datatype} and takes ${takes(datatype)}, got ${nameOf(given)}`);
}

export function floatsOf(datatype: FixedDatatype, data: ElementArray): Float32Array {
  if (data instanceof Float32Array) return data;
  if (datatype === "FP16") return widenFp16(data as Uint16Array);
  if (datatype === "BF16") return widenBf16(data as Uint16Array);
  return Float32Array.from(data as ArrayLike<number | bigint>, Number);
}

function fromList(datatype: FixedDatatype, list: readonly unknown[], where: string): ElementArray {
  const wrong = list.findIndex((value) => !["number", "bigint", "boolean"].includes(typeof value));
  if (wrong >= 0) {
    throw new TypeError(
      `${where} is ${datatype} and takes ${takes(datatype)}, got ${nameOf(list[wrong])} at [${wrong}]`,
    );
  }
  if (datatype === "INT64") return BigInt64Array.from(list as (number | bigint)[], BigInt);
  if (datatype === "UINT64") return BigUint64Array.from(list as (number | bigint)[], BigInt);
  const numbers = list.map(Number);
  if (datatype === "FP16") return Uint16Array.from(numbers, numberToFp16);
  if (datatype === "BF16") return Uint16Array.from(numbers, numberToBf16);
  return ARRAYS[datatype].from(numbers);
}

function encodeTexts(list: unknown, where: string): EncodedElements {
  if (!Array.isArray(list) || !list.every((value) => typeof value === "string" || value instanceof Uint8Array)) {
    throw new TypeError(`${where} is BYTES and takes an array of strings or Uint8Arrays, got ${nameOf(list)}`);
  }
  return { count: list.length, data: packBytesElements(list) };
}

function encoded(array: ElementArray): EncodedElements {
  return { count: array.length, data: new Uint8Array(array.buffer, array.byteOffset, array.byteLength) };
}

function takes(datatype: FixedDatatype): string {
  const array = `a ${ARRAYS[datatype].name}`;
  return datatype === "FP16" || datatype === "BF16"
    ? `${array} of bits, a Float32Array or numbers`
    : `${array} or an array`;
}

function nameOf(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  return typeof value === "object" ? (value.constructor?.name ?? "an object") : `a ${typeof value}`;
}
