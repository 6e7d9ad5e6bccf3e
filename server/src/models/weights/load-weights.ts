/**
 * Fills the tensors of a device from the files of a model: which rows of which file tensor go where, transposed or with one added.
 * How a device reads elements and where it puts them is its sink's affair; which tensors there are, weight-plan.ts's.
 */
import type { FloatType, WeightType } from "../../device/cpu/convert-elements.ts";
import { CPU_TYPE_BYTES } from "../../device/cpu/cpu-tensor.ts";
import { transposeFloats } from "../../device/cuda/convert-floats.ts";
import type { StoredTensor, TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { WeightPlan, WeightSource } from "./weight-plan.ts";
import { isBlockType } from "./weight-types.ts";

/** Gives elements; in `room`, which has their size, when it is given. */
export type ReadElements = (room?: Uint8Array) => Promise<Uint8Array>;

/** Reads what a device keeps. */
export interface ElementReader {
  /** `count` elements of a stored tensor from `element` on, whole rows, in a type of the device; in `room` or elsewhere. */
  read(stored: StoredTensor, element: number, count: number, type: WeightType, room?: Uint8Array): Promise<Uint8Array>;
  convert(from: FloatType, to: WeightType, bytes: Uint8Array): Uint8Array;
}

/** Puts elements where a device keeps them. */
export interface WeightSink<P extends WeightPlan> extends ElementReader {
  /** Fills a tensor whose layout is the device's own, from files that say how; false: the tensor takes elements. */
  fillWhole(plan: P): Promise<boolean>;
  /** In which type the tensor takes elements. */
  typeOf(plan: P): WeightType;
  /** Elements at most that are written at a time: bounds what loading needs beside the weights themselves. */
  maxElements(type: WeightType): number;
  /** Takes `count` elements of the tensor from `element` on; pieces come in order. */
  write(plan: P, element: number, count: number, read: ReadElements): Promise<void>;
}

export async function loadWeights<P extends WeightPlan>(
  plans: readonly P[],
  files: Pick<TensorSource, "tensors">,
  sink: WeightSink<P>,
): Promise<void> {
  for (const plan of plans) {
    if (!(await sink.fillWhole(plan))) await fillTensor(plan, files, sink);
  }
}

async function fillTensor<P extends WeightPlan>(
  plan: P,
  { tensors }: Pick<TensorSource, "tensors">,
  sink: WeightSink<P>,
): Promise<void> {
  const columns = plan.shape.at(-1) ?? 1;
  const type = sink.typeOf(plan);
  const pieceElements = Math.max(1, Math.floor(sink.maxElements(type) / columns)) * columns;
  let first = 0;
  for (const source of plan.sources) {
    const stored = expectStored(source, tensors);
    const readPiece = await openSource(sink, stored, source, type);
    const numElements = stored.shape.reduce((product, size) => product * size, 1);
    for (let at = 0; at < numElements; at += pieceElements) {
      const count = Math.min(pieceElements, numElements - at);
      await sink.write(plan, first + at, count, (room) => readPiece(at, count, room));
    }
    first += numElements;
  }
}

/** `count` elements from `element` on, in `room` when it is given. */
export type ReadPiece = (element: number, count: number, room?: Uint8Array) => Promise<Uint8Array>;

/** Reads the elements of a source after its change. */
export async function openSource(
  reader: ElementReader,
  stored: StoredTensor,
  source: WeightSource,
  type: WeightType,
): Promise<ReadPiece> {
  if (source.change === "transpose") {
    const whole = await readTransposed(reader, stored, type);
    const elementBytes = CPU_TYPE_BYTES[type];
    return async (element, count, room) =>
      inRoom(whole.subarray(element * elementBytes, (element + count) * elementBytes), room);
  }
  if (source.change === "add-one" && type !== "f32") {
    throw new Error(`tensor "${source.name}": one is added to f32 only, not to ${type}`);
  }
  return async (element, count, room) => {
    const elements = inRoom(await reader.read(stored, element, count, type, room), room);
    if (source.change === "add-one") addOne(elements);
    return elements;
  };
}

function inRoom(elements: Uint8Array, room: Uint8Array | undefined): Uint8Array {
  if (room === undefined || room === elements) return elements;
  room.set(elements);
  return room;
}

/** Read whole: that is one matrix. Blocks are made after the transposition. */
async function readTransposed(reader: ElementReader, stored: StoredTensor, type: WeightType): Promise<Uint8Array> {
  const [rows = 0, columns = 0] = stored.shape;
  const floats = isFloat(type) ? type : "f32";
  const elements = await reader.read(stored, 0, rows * columns, floats);
  return reader.convert(floats, type, transposeFloats(elements, CPU_TYPE_BYTES[floats], rows, columns));
}

function isFloat(type: WeightType): type is FloatType {
  return !isBlockType(type);
}

/** Gemma's files hold the weights of (1 + weight) norms. */
function addOne({ buffer, byteOffset, byteLength }: Uint8Array): void {
  const values = new Float32Array(buffer, byteOffset, byteLength / 4);
  for (let i = 0; i < values.length; i++) values[i] = (values[i] ?? 0) + 1;
}

/** @throws Error when it is missing */
function expectStored({ name, shape }: WeightSource, tensors: TensorSource["tensors"]): StoredTensor {
  const stored = tensors.get(name);
  if (stored === undefined) throw new Error(`the weights lack tensor "${name}" [${shape.join(", ")}]`);
  return stored;
}

/**
 * The stored tensor of a source, and its type as the device reads it. `typeOf` throws for types that the device does not read.
 * @throws Error when it is missing or has another shape than the config says
 */
export function expectSource<T>(
  source: WeightSource,
  { tensors }: Pick<TensorSource, "tensors">,
  typeOf: (stored: StoredTensor) => T,
): T {
  const { name, shape } = source;
  const stored = expectStored(source, tensors);
  const type = typeOf(stored);
  if (stored.shape.length === shape.length && shape.every((size, i) => size === stored.shape[i])) return type;
  throw new Error(`tensor "${name}": expected [${shape.join(", ")}] from the config, got [${stored.shape.join(", ")}]`);
}
