/** Loads the weights of a decoder to the CPU device: reads, converts and places what weight-plan.ts describes. */
import { convertElements, type FloatType } from "../device/cpu/convert-elements.ts";
import { CpuBuffer, type CpuTensorSpec } from "../device/cpu/cpu-buffer.ts";
import type { CpuDevice } from "../device/cpu/cpu-device.ts";
import { CPU_TYPE_BYTES, type CpuTensor } from "../device/cpu/cpu-tensor.ts";
import type { Safetensors } from "../formats/safetensors.ts";
import type { ParsedDecoder } from "./parse-decoder-config.ts";
import type { RopeFactors } from "./rope-factors.ts";
import { describeWeights, findPrefix, type ModelWeights, type WeightPlan, type WeightSource } from "./weight-plan.ts";

export interface DecoderWeights extends ModelWeights<CpuTensor> {
  /** Divisors of the frequencies of each rope; undefined where none changes. */
  readonly ropeDivisors: readonly (CpuTensor | undefined)[];
  readonly numBytes: number;
  close(): void;
}

/** Read, converted and copied at a time: bounds what loading needs beside the weights themselves. */
const PIECE_BYTES: number = 8 << 20;

/** @throws Error naming a tensor that is missing or has another shape than the config says */
export async function loadDecoderWeights(
  device: CpuDevice,
  { config, weights: names }: ParsedDecoder,
  files: Safetensors,
  matrixType: FloatType,
  ropes: readonly RopeFactors[],
): Promise<DecoderWeights> {
  const prefix = findPrefix(names, (tensor) => files.tensors.has(tensor));
  const plans: WeightPlan[] = [];
  describeWeights(config, names, matrixType, prefix, (plan) => plans.push(plan));
  for (const plan of plans) checkSources(plan, files);
  const divisors = ropes.flatMap((rope) => rope.divisors ?? []);
  const divisorSpecs = divisors.map(({ length }): CpuTensorSpec => ({ type: "f32", shape: [length] }));
  const buffer = new CpuBuffer(device, [...plans, ...divisorSpecs]);
  try {
    for (const [i, plan] of plans.entries()) await fill(device, buffer, at(buffer.tensors, i), plan, files);
    for (const [i, values] of divisors.entries()) buffer.write(at(buffer.tensors, plans.length + i), values);
    let next = 0;
    const nextTensor = (): CpuTensor => at(buffer.tensors, next++);
    return {
      ...describeWeights(config, names, matrixType, prefix, nextTensor),
      ropeDivisors: ropes.map((rope) => (rope.divisors === undefined ? undefined : nextTensor())),
      numBytes: buffer.numBytes,
      close: () => buffer.close(),
    };
  } catch (error) {
    buffer.close();
    throw error;
  }
}

function checkSources(plan: WeightPlan, files: Safetensors): void {
  for (const { name, shape } of plan.sources) {
    const range = files.tensors.get(name);
    if (range === undefined) throw new Error(`the weights lack tensor "${name}" [${shape.join(", ")}]`);
    if (floatTypeOf(range.dtype) === undefined)
      throw new Error(`tensor "${name}": expected F32, F16 or BF16, got ${range.dtype}`);
    if (range.shape.length !== shape.length || !shape.every((size, i) => size === range.shape[i])) {
      throw new Error(
        `tensor "${name}": expected [${shape.join(", ")}] from the config, got [${range.shape.join(", ")}]`,
      );
    }
  }
}

async function fill(
  device: CpuDevice,
  buffer: CpuBuffer,
  tensor: CpuTensor,
  plan: WeightPlan,
  files: Safetensors,
): Promise<void> {
  let written = 0;
  const write = (elements: Uint8Array): void => {
    buffer.write(tensor, elements, written);
    written += elements.byteLength;
  };
  for (const source of plan.sources) {
    const range = files.tensors.get(source.name);
    const from = range && floatTypeOf(range.dtype);
    if (range === undefined || from === undefined) throw new Error(`tensor "${source.name}" went away`);
    // What is transposed is read whole; that is one matrix.
    const pieceBytes = source.change === "transpose" ? range.byteLength : PIECE_BYTES;
    for (let offset = 0; offset < range.byteLength; offset += pieceBytes) {
      const piece = new Uint8Array(Math.min(pieceBytes, range.byteLength - offset));
      await files.read(source.name, piece, offset);
      write(change(source, convertElements(device.ggml, from, plan.type, piece), plan.type));
    }
  }
}

function change(source: WeightSource, elements: Uint8Array, type: FloatType): Uint8Array {
  if (source.change === "transpose") return transpose(source, elements, type);
  if (source.change === "add-one") addOne(source, elements, type);
  return elements;
}

function transpose({ shape }: WeightSource, elements: Uint8Array, type: FloatType): Uint8Array {
  const [rows = 0, columns = 0] = shape;
  const isWide = CPU_TYPE_BYTES[type] === 4;
  const from = isWide ? wordsOf(elements) : new Uint16Array(elements.buffer, elements.byteOffset, rows * columns);
  const to = isWide ? new Uint32Array(rows * columns) : new Uint16Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) to[column * rows + row] = from[row * columns + column] ?? 0;
  }
  return new Uint8Array(to.buffer);
}

function addOne({ name }: WeightSource, elements: Uint8Array, type: FloatType): void {
  if (type !== "f32") throw new Error(`tensor "${name}": one is added to f32 only, not to ${type}`);
  const { buffer, byteOffset, byteLength } = elements;
  const values = new Float32Array(buffer, byteOffset, byteLength / 4);
  for (let i = 0; i < values.length; i++) values[i] = (values[i] ?? 0) + 1;
}

function wordsOf({ buffer, byteOffset, byteLength }: Uint8Array): Uint32Array {
  return new Uint32Array(buffer, byteOffset, byteLength / 4);
}

function floatTypeOf(dtype: string): FloatType | undefined {
  if (dtype === "F32") return "f32";
  if (dtype === "F16") return "f16";
  return dtype === "BF16" ? "bf16" : undefined;
}

function at<T>(list: readonly T[], index: number): T {
  const value = list[index];
  if (value === undefined) throw new Error(`expected an element at ${index} of ${list.length}`);
  return value;
}
