/** Loads the weights of a decoder to the CPU device: reads, converts and places what weight-plan.ts describes. */
import { convertElements, type WeightType } from "../../device/cpu/convert-elements.ts";
import type { CpuDevice } from "../../device/cpu/cpu-device.ts";
import { CPU_TYPE_BYTES, type CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import { type PlacedSpec, PlacedTensors } from "../../device/cpu/placed-tensors.ts";
import type { TensorSource } from "../../formats/tensors/tensor-source.ts";
import { isPackedTensors, type PackedTensors } from "../../formats/trtllm/engine-file.ts";
import { expectTarget } from "../../formats/trtllm/engine-header.ts";
import type { ParsedDecoder } from "../config/parse-decoder-config.ts";
import type { RopeFactors } from "../config/rope-factors.ts";
import { describeWeights, findPrefix, type ModelWeights, type WeightPlan, type WeightSource } from "./weight-plan.ts";
import { chooseType, isBlockType, weightTypeOf } from "./weight-types.ts";

export interface DecoderWeights extends ModelWeights<CpuTensor> {
  /** Divisors of the frequencies of each rope; undefined where none changes. */
  readonly ropeDivisors: readonly (CpuTensor | undefined)[];
  readonly numBytes: number;
  close(): void;
}

/** Read, converted and copied at a time: bounds what loading needs beside the weights themselves. Whole blocks. */
const PIECE_ELEMENTS: number = 4 << 20;

/** Takes the bytes of one tensor. */
export type TensorWriter = Pick<ReturnType<PlacedTensors["writer"]>, "write">;

/** A plan and the type in which its tensor is kept. */
export interface TypedPlan extends WeightPlan {
  readonly type: WeightType;
}

/**
 * `matrixType` is undefined for: as the files have them.
 * @throws Error naming a tensor that is missing or has another shape than the config says
 */
export async function loadDecoderWeights(
  device: CpuDevice,
  { config, weights: names }: ParsedDecoder,
  files: TensorSource,
  matrixType: WeightType | undefined,
  ropes: readonly RopeFactors[],
): Promise<DecoderWeights> {
  const prefix = findPrefix(names, (tensor) => files.tensors.has(tensor));
  const packed = isPackedTensors(files) ? files : undefined;
  if (packed !== undefined) expectTarget(packed.target, device.target, packed.path);
  const typed = (plan: WeightPlan): TypedPlan =>
    packed === undefined ? typePlan(plan, files, matrixType) : packedPlan(plan, packed);
  const options = { copiesTiedOutput: false };
  const plans: TypedPlan[] = [];
  describeWeights(config, names, prefix, (plan) => plans.push(typed(plan)));
  // A tied output is multiplied with at every step: worth a copy of its own where that makes it faster.
  const [embedding] = plans;
  const isPlain = embedding !== undefined && packed?.tensors.get(packedName(embedding))?.layout === "plain";
  if (
    config.tieWordEmbeddings &&
    embedding !== undefined &&
    !isPlain &&
    device.productMemory(embedding) !== undefined
  ) {
    options.copiesTiedOutput = true;
    plans.length = 0;
    describeWeights(config, names, prefix, (plan) => plans.push(typed(plan)), options);
  }
  const divisors = ropes.flatMap((rope) => rope.divisors ?? []);
  const divisorSpecs = divisors.map(({ length }): PlacedSpec => ({ type: "f32", shape: [length], isProduct: false }));
  const placed = new PlacedTensors(device, [...plans, ...divisorSpecs]);
  try {
    for (const [i, plan] of plans.entries()) {
      const writer = placed.writer(i);
      await (packed === undefined ? fillTensor(device.ggml, writer, plan, files) : copyPacked(writer, plan, packed));
      writer.end();
    }
    for (const [i, values] of divisors.entries()) writeAll(placed.writer(plans.length + i), values);
    let next = 0;
    const nextTensor = (): CpuTensor => at(placed.tensors, next++);
    return {
      ...describeWeights(config, names, prefix, nextTensor, options),
      ropeDivisors: ropes.map((rope) => (rope.divisors === undefined ? undefined : nextTensor())),
      numBytes: placed.numBytes,
      close: () => placed.close(),
    };
  } catch (error) {
    placed.close();
    throw error;
  }
}

/** `matrixType` is undefined for: as the files have them. @throws Error naming a tensor that does not fit */
export function typePlan(plan: WeightPlan, files: TensorSource, matrixType: WeightType | undefined): TypedPlan {
  return { ...plan, type: chooseType(plan, checkSources(plan, files), matrixType) };
}

/** What a packed tensor is called: by the first that is in it. */
export function packedName({ sources }: WeightPlan): string {
  return sources[0]?.name ?? "";
}

function packedPlan(plan: WeightPlan, packed: PackedTensors): TypedPlan {
  const stored = packed.tensors.get(packedName(plan));
  const type = stored && weightTypeOf(stored.dtype);
  const { shape } = plan;
  const fits = stored?.shape.length === shape.length && shape.every((size, i) => size === stored.shape[i]);
  const isProduct = plan.isProduct && stored?.layout !== "plain";
  if (fits && type !== undefined) return { ...plan, type, isProduct };
  const got = stored === undefined ? "none" : `[${stored.shape.join(", ")}]`;
  throw new Error(
    `${packed.path}: tensor "${packedName(plan)}": expected [${shape.join(", ")}], got ${got}; build it again`,
  );
}

async function copyPacked(writer: TensorWriter, plan: TypedPlan, packed: PackedTensors): Promise<void> {
  const name = packedName(plan);
  const { byteLength = 0 } = packed.tensors.get(name) ?? {};
  const piece = new Uint8Array(Math.min(byteLength, PIECE_ELEMENTS));
  for (let offset = 0; offset < byteLength; offset += piece.byteLength) {
    const part = piece.subarray(0, byteLength - offset);
    await packed.read(name, part, offset);
    writer.write(part);
  }
}

/** The types of the sources, once they have proved to be there and to be of the shape that the config says. */
function checkSources(plan: WeightPlan, files: TensorSource): readonly WeightType[] {
  return plan.sources.map(({ name, shape }) => {
    const stored = files.tensors.get(name);
    if (stored === undefined) throw new Error(`the weights lack tensor "${name}" [${shape.join(", ")}]`);
    const type = weightTypeOf(stored.dtype);
    if (type === undefined) throw new Error(`tensor "${name}": expected F32, F16 or BF16, got ${stored.dtype}`);
    if (stored.shape.length !== shape.length || !shape.every((size, i) => size === stored.shape[i])) {
      throw new Error(
        `tensor "${name}": expected [${shape.join(", ")}] from the config, got [${stored.shape.join(", ")}]`,
      );
    }
    return type;
  });
}

/** The bytes of a tensor as the device keeps it, a piece at a time. */
export async function fillTensor(
  ggml: CpuDevice["ggml"],
  writer: TensorWriter,
  plan: TypedPlan,
  files: TensorSource,
): Promise<void> {
  for (const source of plan.sources) {
    const stored = files.tensors.get(source.name);
    const from = stored && weightTypeOf(stored.dtype);
    if (stored === undefined || from === undefined) throw new Error(`tensor "${source.name}" went away`);
    // What is transposed is read whole; that is one matrix. Its blocks are made behind that.
    const pieceBytes = source.change === "transpose" ? stored.byteLength : PIECE_ELEMENTS * CPU_TYPE_BYTES[from];
    const between = source.change === "transpose" && isBlockType(plan.type) ? "f32" : plan.type;
    for (let offset = 0; offset < stored.byteLength; offset += pieceBytes) {
      const piece = new Uint8Array(Math.min(pieceBytes, stored.byteLength - offset));
      await files.read(source.name, piece, offset);
      const changed = change(source, convertElements(ggml, from, between, piece), between);
      writer.write(convertElements(ggml, between, plan.type, changed));
    }
  }
}

function writeAll(writer: ReturnType<PlacedTensors["writer"]>, values: Float32Array): void {
  writer.write(values);
  writer.end();
}

function change(source: WeightSource, elements: Uint8Array, type: WeightType): Uint8Array {
  if (source.change === "transpose") return transpose(source, elements, type);
  if (source.change === "add-one") addOne(source, elements, type);
  return elements;
}

function transpose({ shape }: WeightSource, elements: Uint8Array, type: WeightType): Uint8Array {
  const [rows = 0, columns = 0] = shape;
  const isWide = CPU_TYPE_BYTES[type] === 4;
  const from = isWide ? wordsOf(elements) : new Uint16Array(elements.buffer, elements.byteOffset, rows * columns);
  const to = isWide ? new Uint32Array(rows * columns) : new Uint16Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) to[column * rows + row] = from[row * columns + column] ?? 0;
  }
  return new Uint8Array(to.buffer);
}

function addOne({ name }: WeightSource, elements: Uint8Array, type: WeightType): void {
  if (type !== "f32") throw new Error(`tensor "${name}": one is added to f32 only, not to ${type}`);
  const { buffer, byteOffset, byteLength } = elements;
  const values = new Float32Array(buffer, byteOffset, byteLength / 4);
  for (let i = 0; i < values.length; i++) values[i] = (values[i] ?? 0) + 1;
}

function wordsOf({ buffer, byteOffset, byteLength }: Uint8Array): Uint32Array {
  return new Uint32Array(buffer, byteOffset, byteLength / 4);
}

function at<T>(list: readonly T[], index: number): T {
  const value = list[index];
  if (value === undefined) throw new Error(`expected an element at ${index} of ${list.length}`);
  return value;
}
