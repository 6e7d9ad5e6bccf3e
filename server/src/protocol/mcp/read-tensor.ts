/**
 * From nested lists of JSON to a tensor: one level a dimension. The batch dimension may be left out, and a tensor of one
 * element may be a plain value. Source: KServe V2, "Tensor Data" and "Tensor Data Types".
 */
import { type Datatype, elementSize, packBytesElements } from "@nereid/wire";
import { numberToBf16 } from "../../core/bf16.ts";
import { numberToFp16 } from "../../core/fp16.ts";
import { MAX_MCP_ELEMENTS } from "../../core/limits.ts";
import type { TensorMetadata } from "../../core/model-server.ts";
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import { describe, shown } from "../api/schema.ts";

/** @throws ServerError that names the input and the place in it */
export function readTensor(input: TensorMetadata, value: unknown): Tensor {
  const { shape, items } = flatten(input, value);
  const { name, datatype } = input;
  return { name, datatype, shape: fullShape(input, shape), data: elementsOf(name, datatype, items) };
}

interface Flat {
  readonly shape: readonly number[];
  readonly items: readonly unknown[];
}

function flatten({ name, shape: { length: rank } }: TensorMetadata, value: unknown): Flat {
  const shape: number[] = [];
  for (let inner = value; Array.isArray(inner) && shape.length <= rank; inner = inner[0]) shape.push(inner.length);
  const items: unknown[] = [];
  const walk = (part: unknown, depth: number, at: string): void => {
    if (depth === shape.length) {
      if (Array.isArray(part)) throw invalidArgument(`${at}: expected a value, got a list`);
      if (items.length === MAX_MCP_ELEMENTS) throw tooMany(name);
      items.push(part);
      return;
    }
    const expected = `expected a list of ${shape[depth]}`;
    if (!Array.isArray(part)) throw invalidArgument(`${at}: ${expected} as before it, got ${describe(part)}`);
    if (part.length !== shape[depth]) throw invalidArgument(`${at}: ${expected} as before it, got ${part.length}`);
    for (const [i, each] of part.entries()) walk(each, depth + 1, `${at}[${i}]`);
  };
  walk(value, 0, name);
  return { shape, items };
}

function tooMany(name: string): ServerError {
  return invalidArgument(`${name}: expected at most ${MAX_MCP_ELEMENTS} elements; larger tensors go to /v2/models`);
}

/** @throws ServerError when no reading of the given shape fits the model's */
function fullShape({ name, shape }: TensorMetadata, given: readonly number[]): readonly number[] {
  const fits = (candidate: readonly number[]): boolean =>
    candidate.length === shape.length && shape.every((dim, i) => dim === -1 || dim === candidate[i]);
  const candidates = [given, [1, ...given], ...(given.length === 0 ? [shape.map(() => 1)] : [])];
  const found = candidates.find(fits);
  if (found !== undefined) return found;
  const expected = shape.map((dim) => (dim === -1 ? "any" : dim)).join(", ");
  throw invalidArgument(`${name}: expected lists of the shape [${expected}], got [${given.join(", ")}]`);
}

type Write = (view: DataView, at: number, value: number) => void;

interface Whole {
  readonly bits: 8 | 16 | 32;
  readonly isSigned: boolean;
}

const WHOLE: Partial<Readonly<Record<Datatype, Whole>>> = {
  UINT8: { bits: 8, isSigned: false },
  UINT16: { bits: 16, isSigned: false },
  UINT32: { bits: 32, isSigned: false },
  INT8: { bits: 8, isSigned: true },
  INT16: { bits: 16, isSigned: true },
  INT32: { bits: 32, isSigned: true },
};

const FLOATS: Partial<Readonly<Record<Datatype, Write>>> = {
  FP16: (view, at, value) => view.setUint16(at, numberToFp16(value), true),
  BF16: (view, at, value) => view.setUint16(at, numberToBf16(value), true),
  FP32: (view, at, value) => view.setFloat32(at, value, true),
  FP64: (view, at, value) => view.setFloat64(at, value, true),
};

const NAMED_FLOATS: ReadonlyMap<unknown, number> = new Map([
  ["NaN", Number.NaN],
  ["Infinity", Number.POSITIVE_INFINITY],
  ["-Infinity", Number.NEGATIVE_INFINITY],
]);

function elementsOf(name: string, datatype: Datatype, items: readonly unknown[]): Uint8Array {
  if (datatype === "BYTES") return packBytesElements(items.map((item, i) => textOf(item, `${name}, element ${i}`)));
  const size = elementSize(datatype);
  const data = new Uint8Array(items.length * size);
  const view = new DataView(data.buffer);
  const write = writerOf(datatype);
  for (const [i, item] of items.entries()) write(view, i * size, item, `${name}, element ${i}`);
  return data;
}

function writerOf(datatype: Datatype): (view: DataView, at: number, item: unknown, where: string) => void {
  const whole = WHOLE[datatype];
  const float = FLOATS[datatype];
  if (whole !== undefined) return (view, at, item, where) => writeWhole(view, at, wholeOf(item, whole, where), whole);
  if (float !== undefined) return (view, at, item, where) => float(view, at, floatOf(item, where));
  if (datatype === "BOOL") {
    return (view, at, item, where) => view.setUint8(at, booleanOf(item, where) ? 1 : 0);
  }
  const isSigned = datatype === "INT64";
  return (view, at, item, where) => view.setBigUint64(at, wideOf(item, isSigned, where), true);
}

function writeWhole(view: DataView, at: number, value: number, { bits }: Whole): void {
  if (bits === 8) view.setUint8(at, value);
  else if (bits === 16) view.setUint16(at, value, true);
  else view.setUint32(at, value, true);
}

function textOf(item: unknown, where: string): string {
  if (typeof item === "string") return item;
  throw invalidArgument(`${where}: expected a text, got ${describe(item)}`);
}

function booleanOf(item: unknown, where: string): boolean {
  if (typeof item === "boolean") return item;
  throw invalidArgument(`${where}: expected true or false, got ${describe(item)}`);
}

function floatOf(item: unknown, where: string): number {
  const value = NAMED_FLOATS.get(item) ?? item;
  if (typeof value === "number") return value;
  throw invalidArgument(`${where}: expected a number, got ${describe(item)}`);
}

function wholeOf(item: unknown, { bits, isSigned }: Whole, where: string): number {
  const lowest = isSigned ? -(2 ** (bits - 1)) : 0;
  const highest = lowest + 2 ** bits - 1;
  if (typeof item === "number" && Number.isInteger(item) && item >= lowest && item <= highest) return item;
  throw invalidArgument(`${where}: expected a whole number from ${lowest} to ${highest}, got ${shown(item)}`);
}

/** As the bits of an unsigned number. */
function wideOf(item: unknown, isSigned: boolean, where: string): bigint {
  const isWhole = typeof item === "number" ? Number.isSafeInteger(item) : /^-?\d{1,20}$/.test(String(item));
  const value = isWhole && (typeof item === "number" || typeof item === "string") ? BigInt(item) : undefined;
  const fits = value !== undefined && (isSigned ? BigInt.asIntN(64, value) : BigInt.asUintN(64, value)) === value;
  if (fits) return BigInt.asUintN(64, value);
  const expected = `expected a whole number of 64 bits, as a text beyond 2^53`;
  throw invalidArgument(`${where}: ${expected}, got ${shown(item)}`);
}
