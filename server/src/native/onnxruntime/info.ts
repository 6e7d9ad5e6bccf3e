/** A loaded model's inputs, outputs and producer. */
import { type Address, readCString } from "../ffi.ts";
import type { OrtApi, Status } from "./api.ts";
import { check } from "./status.ts";
import { type ElementType, elementTypeOfCode } from "./types.ts";

/** An input or output. Values that are no tensors have another `kind` than "TENSOR", and no type or shape. */
export interface ValueInfo {
  readonly name: string;
  readonly kind: ValueKind;
  readonly elementType: ElementType;
  /** -1: dynamic. A tensor of unknown rank looks like a scalar. */
  readonly dims: readonly number[];
  /** Name of each dynamic dimension, "" when it has none; equal names mean equal sizes. */
  readonly dimNames: readonly string[];
}

export type ValueKind = "UNKNOWN" | "TENSOR" | "SEQUENCE" | "MAP" | "OPAQUE" | "SPARSETENSOR" | "OPTIONAL";

export interface ModelInfo {
  /** In the model's order. */
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  /** Initializers that a run may override. */
  readonly overridableInitializers: readonly ValueInfo[];
}

const KINDS: readonly ValueKind[] = ["UNKNOWN", "TENSOR", "SEQUENCE", "MAP", "OPAQUE", "SPARSETENSOR", "OPTIONAL"];

interface ValueReader {
  count(session: Address, out: BigUint64Array): Status;
  name(session: Address, index: number, allocator: Address, out: BigUint64Array): Status;
  type(session: Address, index: number, out: BigUint64Array): Status;
}

export function readModelInfo(api: OrtApi, allocator: Address, session: Address): ModelInfo {
  const read = (reader: ValueReader): ValueInfo[] => readValues(api, allocator, session, reader);
  return {
    inputs: read({
      count: api.SessionGetInputCount,
      name: api.SessionGetInputName,
      type: api.SessionGetInputTypeInfo,
    }),
    outputs: read({
      count: api.SessionGetOutputCount,
      name: api.SessionGetOutputName,
      type: api.SessionGetOutputTypeInfo,
    }),
    overridableInitializers: read({
      count: api.SessionGetOverridableInitializerCount,
      name: api.SessionGetOverridableInitializerName,
      type: api.SessionGetOverridableInitializerTypeInfo,
    }),
  };
}

function readValues(api: OrtApi, allocator: Address, session: Address, reader: ValueReader): ValueInfo[] {
  const out = new BigUint64Array(1);
  check(api, reader.count(session, out));
  const count = Number(out[0]);
  const values: ValueInfo[] = [];
  for (let index = 0; index < count; index++) {
    check(api, reader.name(session, index, allocator, out));
    const name = takeString(api, allocator, out[0] ?? 0n);
    check(api, reader.type(session, index, out));
    const typeInfo = out[0] ?? 0n;
    try {
      values.push(readValue(api, name, typeInfo));
    } finally {
      api.ReleaseTypeInfo(typeInfo);
    }
  }
  return values;
}

function readValue(api: OrtApi, name: string, typeInfo: Address): ValueInfo {
  const kind = KINDS[readInt(api, (out) => api.GetOnnxTypeFromTypeInfo(typeInfo, out))] ?? "UNKNOWN";
  const out = new BigUint64Array(1);
  check(api, api.CastTypeInfoToTensorInfo(typeInfo, out));
  const info = out[0] ?? 0n;
  if (kind !== "TENSOR" || info === 0n) {
    return { name, kind, elementType: elementTypeOfCode(0), dims: [], dimNames: [] };
  }
  const elementType = elementTypeOfCode(readInt(api, (int) => api.GetTensorElementType(info, int)));
  check(api, api.GetDimensionsCount(info, out));
  const rank = Number(out[0]);
  return { name, kind, elementType, dims: readDims(api, info, rank), dimNames: readDimNames(api, info, rank) };
}

function readDims(api: OrtApi, info: Address, rank: number): number[] {
  if (rank === 0) return [];
  const dims = new BigInt64Array(rank);
  check(api, api.GetDimensions(info, dims, rank));
  return Array.from(dims, Number);
}

function readDimNames(api: OrtApi, info: Address, rank: number): string[] {
  if (rank === 0) return [];
  const names = new BigUint64Array(rank);
  check(api, api.GetSymbolicDimensions(info, names, rank));
  return Array.from(names, (address) => (address === 0n ? "" : readCString(address)));
}

function readInt(api: OrtApi, read: (out: Int32Array) => Status): number {
  const out = new Int32Array(1);
  check(api, read(out));
  return out[0] ?? 0;
}

/** Reads a string that C allocated for us, and frees it. */
export function takeString(api: OrtApi, allocator: Address, address: Address): string {
  if (address === 0n) return "";
  const text = readCString(address);
  check(api, api.AllocatorFree(allocator, address));
  return text;
}
