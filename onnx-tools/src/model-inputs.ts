/** Test inputs for a model: random ones that it accepts, or arrays from .npy files. It runs nothing. */

import { numberToFp16 } from "@nereid/server/core/fp16";
import { elementCount, type Tensor } from "@nereid/server/core/tensor";
import { ToolError } from "@nereid/server/files/tool-error";
import type { OnnxDocument } from "@nereid/server/formats/onnx/document";
import { readNpy } from "@nereid/server/formats/tensors/npy";
import type { ValueInfo } from "@nereid/server/native/onnxruntime/info";
import { elementSize } from "@nereid/wire";

/** A shape for each input. */
export type Shapes = ReadonlyMap<string, readonly number[]>;

/** Default for dynamic sizes: small, so that position tables of small models suffice. */
const DEFAULT_BATCH = 2;
const DEFAULT_SIZE = 8;

/** Dimensions that are lists of related items and not a batch, even in first position. */
const LIST_NAME = /patches/i;

/** Resolves dynamic sizes: the first to a small batch, others to a short length; equal names get equal sizes. */
export function defaultShape({ dims, dimNames }: Pick<ValueInfo, "dims" | "dimNames">): readonly number[] {
  const isBatch = (axis: number): boolean => {
    const name = dimNames[axis] ?? "";
    return /batch/i.test(name) || (axis === 0 && !LIST_NAME.test(name));
  };
  return dims.map((size, axis) => (size >= 0 ? size : isBatch(axis) ? DEFAULT_BATCH : DEFAULT_SIZE));
}

/** Upper limits of ids by input: the length of the table that they index. */
export function idLimits({ nodes, tensors }: OnnxDocument): ReadonlyMap<string, number> {
  const limits = new Map<string, number>();
  for (const { operator, inputs } of nodes) {
    const [table = "", ids = ""] = inputs;
    const length = tensors.get(table)?.dims[0];
    if (operator !== "Gather" || length === undefined) continue;
    limits.set(ids, Math.min(length, limits.get(ids) ?? Number.POSITIVE_INFINITY));
  }
  return limits;
}

/** Numbers from 0 to 1, reproducible by seed. */
export function randomNumbers(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Normally distributed floats; ids below their limit; ones for other integers, which are mostly masks. */
export function randomInput(
  value: ValueInfo,
  shape: readonly number[],
  limit: number | undefined,
  random: () => number,
): Tensor {
  const count = elementCount(shape);
  const isFloat = /^FP/.test(value.elementType.datatype ?? "");
  const next = isFloat ? () => normal(random) : () => (limit === undefined ? 1 : Math.floor(random() * limit));
  return tensorOf(value, shape, Float64Array.from({ length: count }, next));
}

/** `spec` is `name:file.npy`. @throws ToolError naming the mismatch */
export async function fileInput(spec: string, inputs: readonly ValueInfo[]): Promise<Tensor> {
  const colon = spec.indexOf(":");
  const [name, path] = [spec.slice(0, Math.max(0, colon)), spec.slice(colon + 1)];
  const value = inputs.find((each) => each.name === name);
  if (value === undefined) {
    const known = inputs.map((each) => each.name).join(", ");
    throw new ToolError(`'${spec}': expected name:file.npy with one of the names ${known}`);
  }
  const { shape, values } = await readNpy(path).catch((cause: unknown) => {
    throw new ToolError(cause instanceof Error ? cause.message : String(cause), { cause });
  });
  return tensorOf(value, shape, values);
}

function normal(random: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

function tensorOf({ name, elementType }: ValueInfo, shape: readonly number[], values: ArrayLike<number>): Tensor {
  const { datatype } = elementType;
  const write = datatype === undefined ? undefined : WRITERS.get(datatype);
  if (datatype === undefined || datatype === "BYTES" || write === undefined) {
    throw new ToolError(`Input '${name}' is of type ${elementType.name}, expected numbers`);
  }
  const data = Buffer.alloc(values.length * elementSize(datatype));
  for (let index = 0; index < values.length; index++) write(data, index, values[index] ?? 0);
  return { name, datatype, shape, data };
}

const WRITERS: ReadonlyMap<string, (into: Buffer, index: number, value: number) => void> = new Map<
  string,
  (into: Buffer, index: number, value: number) => void
>([
  ["FP32", (into, index, value) => into.writeFloatLE(value, index * 4)],
  ["FP64", (into, index, value) => into.writeDoubleLE(value, index * 8)],
  ["FP16", (into, index, value) => into.writeUInt16LE(numberToFp16(value), index * 2)],
  ["INT64", (into, index, value) => into.writeBigInt64LE(BigInt(Math.trunc(value)), index * 8)],
  ["INT32", (into, index, value) => into.writeInt32LE(Math.trunc(value), index * 4)],
  ["INT8", (into, index, value) => into.writeInt8(Math.trunc(value) % 128, index)],
  ["UINT8", (into, index, value) => into.writeUInt8(Math.abs(Math.trunc(value)) % 256, index)],
  ["BOOL", (into, index, value) => into.writeUInt8(value === 0 ? 0 : 1, index)],
]);
