/**
 * Fills the tensors of a device from the files of a model: which rows of which file tensor go where, transposed or with one added.
 * How a device reads elements and where it puts them is its sink's affair; which tensors there are, weight-plan.ts's.
 */
import type { FloatType, WeightType } from "../../device/cpu/convert-elements.ts";
import { CPU_TYPE_BYTES } from "../../device/cpu/cpu-tensor.ts";
import { transposeFloats } from "../../device/cuda/convert-floats.ts";
import type { StoredTensor, TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { RowRun, WeightPlan, WeightSource } from "./weight-plan.ts";
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
    const numElements = countElements(source);
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
    return async (element, count, room) => inRoom(sliceElements(whole, type, element, count), room);
  }
  if ((source.change === "add-one" || source.change === "minus-exp") && type !== "f32") {
    const what = source.change === "add-one" ? "one is added to" : "an exponential changes";
    throw new Error(`tensor "${source.name}": ${what} f32 only, not to ${type}`);
  }
  const { rows } = source;
  if (source.change === "transpose-runs") {
    const whole = await readTransposedRuns(reader, stored, rows ?? [], type);
    return async (element, count, room) => inRoom(sliceElements(whole, type, element, count), room);
  }
  if (source.change === "unit-rows") return unitRows(reader, stored, type);
  if (rows !== undefined) return pickRows(source, rows, type, (at, count) => reader.read(stored, at, count, type));
  return async (element, count, room) => {
    const elements = inRoom(await reader.read(stored, element, count, type, room), room);
    if (source.change === "add-one") addOne(elements);
    if (source.change === "minus-exp") minusExp(elements);
    return elements;
  };
}

/** Rows divided by their lengths. */
function unitRows(reader: ElementReader, stored: StoredTensor, type: WeightType): ReadPiece {
  const width = stored.shape.at(-1) ?? 1;
  return async (element, count, room) => {
    const { buffer, byteOffset } = await reader.read(stored, element, count, "f32");
    const values = new Float32Array(buffer, byteOffset, count);
    for (let row = 0; row < count; row += width) {
      const part = values.subarray(row, row + width);
      const length = Math.sqrt(part.reduce((sum, value) => sum + value * value, 0));
      for (const [i, value] of part.entries()) part[i] = value / Math.max(length, Number.MIN_VALUE);
    }
    return inRoom(reader.convert("f32", type, new Uint8Array(buffer, byteOffset, 4 * count)), room);
  };
}

/** Elements of a source after its rows are picked. */
function countElements({ shape, rows }: WeightSource): number {
  if (rows === undefined) return shape.reduce((product, size) => product * size, 1);
  const taken = rows.reduce((sum, { count }) => sum + count, 0);
  return shape.length > 1 ? taken * (shape.at(-1) ?? 1) : taken;
}

/** The rows of some runs as if they were all that the tensor has. */
function pickRows(
  { shape, change, name }: WeightSource,
  runs: readonly RowRun[],
  type: WeightType,
  read: (element: number, count: number) => Promise<Uint8Array>,
): ReadPiece {
  if (change !== "none") throw new Error(`tensor "${name}": rows are picked of tensors that are taken as they are`);
  const width = shape.slice(1).reduce((product, size) => product * size, 1);
  const elementBytes = CPU_TYPE_BYTES[type];
  return async (element, count, room) => {
    const out = room ?? new Uint8Array(count * elementBytes);
    let start = 0;
    for (const run of runs) {
      const length = run.count * width;
      const from = Math.max(start, element);
      const to = Math.min(start + length, element + count);
      if (to > from) {
        const elements = await read(run.first * width + from - start, to - from);
        out.set(elements, (from - element) * elementBytes);
      }
      start += length;
    }
    return out;
  };
}

function sliceElements(whole: Uint8Array, type: WeightType, element: number, count: number): Uint8Array {
  const elementBytes = CPU_TYPE_BYTES[type];
  return whole.subarray(element * elementBytes, (element + count) * elementBytes);
}

/** Each run of rows is a matrix that is transposed by itself. */
async function readTransposedRuns(
  reader: ElementReader,
  stored: StoredTensor,
  runs: readonly RowRun[],
  type: WeightType,
): Promise<Uint8Array> {
  const columns = stored.shape.at(-1) ?? 1;
  const floats = isFloat(type) ? type : "f32";
  const bytes = CPU_TYPE_BYTES[floats];
  const whole = new Uint8Array(runs.reduce((sum, { count }) => sum + count, 0) * columns * bytes);
  let at = 0;
  for (const { first, count } of runs) {
    const rows = await reader.read(stored, first * columns, count * columns, floats);
    const turned = transposeFloats(rows, bytes, count, columns);
    whole.set(turned, at);
    at += turned.length;
  }
  return reader.convert(floats, type, whole);
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

/** Files of recurrent layers hold the logarithm of how fast a state decays. */
function minusExp({ buffer, byteOffset, byteLength }: Uint8Array): void {
  const values = new Float32Array(buffer, byteOffset, byteLength / 4);
  for (let i = 0; i < values.length; i++) values[i] = -Math.exp(values[i] ?? 0);
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
