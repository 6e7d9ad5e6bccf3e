/** Reads tensors of files as the floats that a GPU keeps. It touches no device. */
import {
  convertFloats,
  type DeviceFloat,
  isSameFloat,
  STORED_BYTES,
  type StoredFloat,
} from "../../device/cuda/convert-floats.ts";
import { CUDA_TYPE_BYTES } from "../../device/cuda/cuda-tensor.ts";
import type { StoredTensor, TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { ElementReader } from "../weights/load-weights.ts";

/** @throws Error for a type that does not go to a GPU */
export function storedFloat({ name, dtype }: StoredTensor, files: Pick<TensorSource, "integers">): StoredFloat {
  // Rows of integers are read as the floats that they stand for.
  if (files.integers?.has(name) === true) return "F32";
  if (dtype === "F32" || dtype === "F16" || dtype === "BF16") return dtype;
  throw new Error(`tensor "${name}": expected F32, F16 or BF16 on a GPU, got ${dtype}`);
}

/** Reads the floats that weights are kept as on a GPU. */
export function floatReader(files: TensorSource): ElementReader {
  return {
    read: (stored, element, count, type, room) => readFloats(files, stored, element, count, expectFloat(type), room),
    convert: (from, to, bytes) => {
      if (from !== to) throw new Error(`floats of a GPU: expected ${to}, got ${from}`);
      return bytes;
    },
  };
}

function expectFloat(type: string): DeviceFloat {
  if (type === "f32" || type === "bf16") return type;
  throw new Error(`a GPU reads weights as f32 or bf16, not as ${type}`);
}

/** `count` elements from `element` on, whole rows; in `room` where that saves a copy. */
async function readFloats(
  files: TensorSource,
  stored: StoredTensor,
  element: number,
  count: number,
  type: DeviceFloat,
  room: Uint8Array = new Uint8Array(new ArrayBuffer(count * CUDA_TYPE_BYTES[type])),
): Promise<Uint8Array> {
  const { name, shape, widenedFrom } = stored;
  const columns = shape.at(-1) ?? 1;
  const rows = [element / columns, count / columns] as const;
  if (widenedFrom !== undefined && files.readWidened !== undefined) return files.readWidened(name, type, ...rows);
  const integers = files.integers?.get(name);
  if (integers !== undefined) {
    convertFloats("F32", new Uint8Array((await integers.readFloats(...rows)).buffer), type, room);
    return room;
  }
  const from = storedFloat(stored, files);
  const at = element * STORED_BYTES[from];
  if (isSameFloat(from, type)) {
    await files.read(name, room, at);
    return room;
  }
  const piece = new Uint8Array(new ArrayBuffer(count * STORED_BYTES[from]));
  await files.read(name, piece, at);
  convertFloats(from, piece, type, room);
  return room;
}

/** Rows of a matrix as f32. */
export async function readRows(
  files: TensorSource,
  name: string,
  firstRow: number,
  numRows: number,
): Promise<Float32Array> {
  const stored = files.tensors.get(name);
  if (stored === undefined) throw new Error(`the weights lack tensor "${name}"`);
  const columns = stored.shape.at(-1) ?? 1;
  const { buffer, byteOffset } = await readFloats(files, stored, firstRow * columns, numRows * columns, "f32");
  return new Float32Array(buffer, byteOffset, numRows * columns);
}
