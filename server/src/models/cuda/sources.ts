/**
 * Tensors of files as floats for a GPU: whether they are there and what they should be, and their elements in the type
 * that the device keeps. It touches no device.
 */
import {
  convertFloats,
  type DeviceFloat,
  isSameFloat,
  STORED_BYTES,
  type StoredFloat,
  transposeFloats,
} from "../../device/cuda/convert-floats.ts";
import { CUDA_TYPE_BYTES } from "../../device/cuda/cuda-tensor.ts";
import type { StoredTensor, TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { WeightSource } from "../weights/weight-plan.ts";

/** @throws Error when it is missing, of another shape or of a type that does not go to a GPU */
export function expectSource(
  { name, shape }: WeightSource,
  files: Pick<TensorSource, "tensors" | "integers">,
): StoredTensor {
  const stored = files.tensors.get(name);
  if (stored === undefined) throw new Error(`the weights lack tensor "${name}" [${shape.join(", ")}]`);
  floatOf(stored, files);
  if (stored.shape.length === shape.length && shape.every((size, i) => size === stored.shape[i])) return stored;
  throw new Error(`tensor "${name}": expected [${shape.join(", ")}] from the config, got [${stored.shape.join(", ")}]`);
}

function floatOf({ name, dtype }: StoredTensor, files: Pick<TensorSource, "integers">): StoredFloat {
  // Rows of integers are read as the floats that they stand for.
  if (files.integers?.has(name) === true) return "F32";
  if (dtype === "F32" || dtype === "F16" || dtype === "BF16") return dtype;
  throw new Error(`tensor "${name}": expected F32, F16 or BF16 on a GPU, got ${dtype}`);
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
  const rows = new Float32Array(numRows * columns);
  const read = await readerOf(files, stored, { ...stored, change: "none" }, "f32");
  await read(firstRow * columns, new Uint8Array(rows.buffer));
  return rows;
}

/** Gives what fills pieces, from an element on. What is transposed is read whole: that is one matrix. */
export async function readerOf(
  files: TensorSource,
  stored: StoredTensor,
  source: WeightSource,
  type: DeviceFloat,
): Promise<(element: number, bytes: Uint8Array) => Promise<void> | void> {
  const from = floatOf(stored, files);
  if (source.change === "transpose") {
    const whole = await readTransposed(files, stored, from, type);
    return (element, bytes) => {
      const at = element * CUDA_TYPE_BYTES[type];
      bytes.set(whole.subarray(at, at + bytes.byteLength));
    };
  }
  const readRows = rowReaderOf(files, stored, source, type);
  if (readRows !== undefined) {
    const columns = stored.shape.at(-1) ?? 1;
    return (element, bytes) => readRows(bytes, element / columns, bytes.byteLength / CUDA_TYPE_BYTES[type] / columns);
  }
  const added = source.change === "add-one" ? 1 : 0;
  return async (element, bytes) => {
    const at = element * STORED_BYTES[from];
    if (isSameFloat(from, type) && added === 0) {
      await files.read(stored.name, bytes, at);
      return;
    }
    const count = bytes.byteLength / CUDA_TYPE_BYTES[type];
    const piece = new Uint8Array(new ArrayBuffer(count * STORED_BYTES[from]));
    await files.read(stored.name, piece, at);
    convertFloats(from, piece, type, bytes, added);
  };
}

/** Of what is made when it is read; undefined for what is stored as it is. */
function rowReaderOf(
  files: TensorSource,
  { name, widenedFrom }: StoredTensor,
  { change }: WeightSource,
  type: DeviceFloat,
): ((into: Uint8Array, firstRow: number, numRows: number) => Promise<void>) | undefined {
  const integers = files.integers?.get(name);
  if (widenedFrom !== undefined && files.readWidened !== undefined && change === "none") {
    return async (into, ...rows) => into.set((await files.readWidened?.(name, type, ...rows)) ?? []);
  }
  if (integers === undefined) return undefined;
  return async (into, ...rows) => {
    convertFloats("F32", new Uint8Array((await integers.readFloats(...rows)).buffer), type, into);
  };
}

async function readTransposed(
  files: TensorSource,
  stored: StoredTensor,
  from: StoredFloat,
  type: DeviceFloat,
): Promise<Uint8Array> {
  const [rows = 0, columns = 0] = stored.shape;
  const whole = new Uint8Array(new ArrayBuffer(stored.byteLength));
  await files.read(stored.name, whole);
  const turned = transposeFloats(whole, STORED_BYTES[from], rows, columns);
  const converted = new Uint8Array(new ArrayBuffer(rows * columns * CUDA_TYPE_BYTES[type]));
  convertFloats(from, turned, type, converted);
  return converted;
}
