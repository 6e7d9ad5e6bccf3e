/**
 * Matrices of 4 bits of a decoder on a GPU: which become such, how files fill them, what their products need beside them,
 * and the products. It knows no layer.
 */
import { launchScaleColumns } from "../../../kernels/elementwise/elementwise.cuda.ts";
import type { CudaActivation } from "../../../kernels/gated-mul/gated-mul.cuda.ts";
import { int4GroupForm, launchInt4Group } from "../../../kernels/int4-linear/int4-group.cuda.ts";
import type { Int4GroupForm, Int4GroupUse } from "../../../kernels/int4-linear/int4-group-plan.ts";
import {
  INT4_MAX_ROWS,
  type Int4CudaWeight,
  type Int4Device,
  int4WorkspaceBytes,
  launchInt4Decode,
  launchInt4Linear,
} from "../../../kernels/int4-linear/int4-linear.cuda.ts";
import { INT4_BLOCK, type PackedInt4, packInt4 } from "../../../kernels/int4-linear/pack-int4.ts";
import { quantizeInt4 } from "../../../kernels/int4-linear/quantize-int4.ts";
import { type CudaTensor, type Int4Groups, layOut } from "../../device/cuda/cuda-tensor.ts";
import { type Products, productRows } from "../../device/cuda/dense-gemm.ts";
import type { DevicePointer, KernelStream } from "../../device/cuda/kernel-stream.ts";
import type { StoredInt4Matrix } from "../../formats/tensors/stored-int4.ts";
import type { TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { WeightPlan } from "../weights/weight-plan.ts";

/** Of floats that become 4 bits: the largest that divides the inputs. */
const GROUP_SIZES: readonly number[] = [128, 64, 32];

/** Where the parts of a matrix of 4 bits lie within it. */
export interface Int4Layout extends Int4Groups {
  readonly scalesAt: number;
  readonly zerosAt: number | undefined;
  readonly inputScalesAt: number | undefined;
  readonly numBytes: number;
}

/**
 * How a matrix is kept in 4 bits; undefined when it is not. Those stored so stay so; floats become so when `isWanted`.
 * Only integers of 4 bits have zeros of their own: what is made from floats is symmetric.
 */
export function planInt4Matrix(
  { shape, sources }: WeightPlan,
  files: Pick<TensorSource, "integers">,
  isWanted: boolean,
): Int4Layout | undefined {
  const [outputs = 0, inputs = 0] = shape;
  if (shape.length !== 2 || outputs % INT4_BLOCK !== 0 || inputs % INT4_BLOCK !== 0) return undefined;
  if (sources.some(({ change }) => change !== "none")) return undefined;
  const stored = sources.map(({ name }) => files.integers?.get(name));
  const groups = stored.map((matrix) => matrix?.int4);
  const size = groups[0]?.groupSize;
  if (size !== undefined && isKernelGroup(size, inputs) && groups.every((one) => one?.groupSize === size)) {
    const hasZeros = groups.some((one) => one?.hasZeros === true);
    const hasInputScales = groups.some((one) => one?.hasInputScales === true);
    return layOutInt4(outputs, inputs, { groupSize: size, hasZeros, hasInputScales });
  }
  // Integers that do not fit the kernel are not rounded once more.
  if (!isWanted || stored.some((matrix) => matrix !== undefined)) return undefined;
  const groupSize = GROUP_SIZES.find((size) => inputs % size === 0);
  return groupSize === undefined
    ? undefined
    : layOutInt4(outputs, inputs, { groupSize, hasZeros: false, hasInputScales: false });
}

function isKernelGroup(groupSize: number, inputs: number): boolean {
  return inputs % groupSize === 0 && (groupSize === 32 || groupSize === 64 || groupSize % 128 === 0);
}

function layOutInt4(outputs: number, inputs: number, groups: Int4Groups): Int4Layout {
  const { hasZeros, hasInputScales } = groups;
  const numScales = (outputs * inputs) / groups.groupSize;
  const optional = [hasZeros ? numScales / 2 : 0, hasInputScales ? 4 * inputs : 0];
  const { offsets, numBytes } = layOut([(outputs * inputs) / 2, 2 * numScales, ...optional]);
  const [, scalesAt = 0, zerosAt, inputScalesAt] = offsets;
  return {
    ...groups,
    scalesAt,
    zerosAt: hasZeros ? zerosAt : undefined,
    inputScalesAt: hasInputScales ? inputScalesAt : undefined,
    numBytes,
  };
}

/** Reads floats of rows of a tensor. */
export type ReadRows = (name: string, firstRow: number, numRows: number) => Promise<Float32Array>;

/** Rows that become 4 bits at a time. */
const PIECE_ROWS = 512;

/** A whole matrix in the order of the kernel. @throws Error naming the tensor that 4 bits do not hold */
export async function readInt4Matrix(
  { shape, sources }: WeightPlan,
  { groupSize, hasZeros, hasInputScales }: Int4Groups,
  files: Pick<TensorSource, "integers">,
  readRows: ReadRows,
): Promise<PackedInt4 & { readonly inputScales?: Float32Array | undefined }> {
  const [outputs = 0, inputs = 0] = shape;
  const numGroups = inputs / groupSize;
  const codes = new Uint8Array((outputs * inputs) / 2);
  const scales = new Float32Array(outputs * numGroups);
  const zeros = hasZeros ? new Uint8Array(outputs * numGroups).fill(SYMMETRIC_ZERO) : undefined;
  let row = 0;
  let inputScales: Float32Array | undefined;
  const add = (part: StoredInt4Matrix): void => {
    if (hasInputScales) inputScales = sameScales(inputScales, part, sources);
    codes.set(part.codes, (row * inputs) / 2);
    scales.set(part.scales, row * numGroups);
    if (part.zeros !== undefined) zeros?.set(part.zeros, row * numGroups);
    row += part.outputs;
  };
  for (const { name, shape: stored } of sources) {
    const integers = files.integers?.get(name);
    if (integers !== undefined) {
      add(await integers.readInt4());
      continue;
    }
    const [numRows = 0] = stored;
    for (let first = 0; first < numRows; first += PIECE_ROWS) {
      const rows = await readRows(name, first, Math.min(PIECE_ROWS, numRows - first));
      add(quantizeInt4(rows, inputs, { groupSize, hasZeros: false }));
    }
  }
  const packed = packInt4({ outputs, inputs, groupSize, codes, scales, zeros });
  return hasInputScales ? { ...packed, inputScales } : packed;
}

/** Parts that are stacked read the same rows. @throws Error when they scale them otherwise */
function sameScales(
  known: Float32Array | undefined,
  { inputs, inputScales = new Float32Array(inputs).fill(1) }: StoredInt4Matrix,
  sources: WeightPlan["sources"],
): Float32Array {
  if (known === undefined || known.every((scale, i) => scale === inputScales[i])) return inputScales;
  const names = sources.map(({ name }) => `"${name}"`).join(" and ");
  throw new Error(`${names}: expected equal scales of their inputs, got others; weight_type bf16 serves the model`);
}

const SYMMETRIC_ZERO = 8;

/** Memory of the products of all matrices of 4 bits: counters in front, which are zero between products. */
export interface Int4Scratch {
  readonly partialsAt: number;
  /** Where a matrix lies as bf16 while many rows are multiplied with it. */
  readonly decodedAt: number;
  /** Where rows lie, each input times its own scale. */
  readonly scaledAt: number;
  readonly numBytes: number;
}

export interface Int4Shape {
  readonly outputs: number;
  readonly inputs: number;
  readonly hasInputScales: boolean;
}

/** Undefined when no shape is given. */
export function planInt4Scratch(
  device: Int4Device,
  shapes: readonly Int4Shape[],
  maxRows: number,
  alwaysDecodes = false,
): Int4Scratch | undefined {
  if (shapes.length === 0) return undefined;
  const thin = Math.min(maxRows, INT4_MAX_ROWS);
  let [counters, partials, decoded, scaled] = [0, 0, 0, 0];
  for (const { outputs, inputs, hasInputScales } of uniqueShapes(shapes)) {
    if (hasInputScales) scaled = Math.max(scaled, 2 * productRows(maxRows) * inputs);
    const bytes = int4WorkspaceBytes(device, thin, outputs, inputs);
    counters = Math.max(counters, bytes.counters);
    partials = Math.max(partials, bytes.partials);
    if (maxRows > INT4_MAX_ROWS || alwaysDecodes) decoded = Math.max(decoded, 2 * outputs * inputs);
  }
  const { offsets, numBytes } = layOut([counters, partials, decoded, scaled]);
  const [, partialsAt = 0, decodedAt = 0, scaledAt = 0] = offsets;
  return { partialsAt, decodedAt, scaledAt, numBytes };
}

function uniqueShapes(shapes: readonly Int4Shape[]): Iterable<Int4Shape> {
  return new Map(shapes.map((shape) => [Object.values(shape).join(" "), shape])).values();
}

/** Where that memory is. */
export interface Int4Memory {
  readonly counters: DevicePointer;
  readonly partials: DevicePointer;
  readonly decoded: DevicePointer;
  readonly scaled: DevicePointer;
}

export function placeInt4Scratch({ partialsAt, decodedAt, scaledAt }: Int4Scratch, base: DevicePointer): Int4Memory {
  const at = (offset: number): DevicePointer => base + BigInt(offset);
  return { counters: base, partials: at(partialsAt), decoded: at(decodedAt), scaled: at(scaledAt) };
}

export interface Int4Product {
  readonly x: DevicePointer; // bf16 [rows, inputs]
  readonly weight: CudaTensor;
  readonly bias: DevicePointer | undefined;
  readonly rows: number;
  readonly y: DevicePointer; // bf16 [rows, outputs]
  /** Also for few rows. */
  readonly alwaysDecodes?: boolean;
}

/** Fewer leave most of what the matrix units of a warp group do unused. */
const MIN_GROUP_ROWS = 9;

/** Few rows are multiplied with the codes; for many the matrix is decoded first. */
export function enqueueInt4Product(
  stream: KernelStream,
  products: Products,
  memory: Int4Memory,
  { weight, bias, rows, y, alwaysDecodes = false, ...product }: Int4Product,
): void {
  const matrix = int4Weight(weight);
  const x = enqueueScaledRows(stream, memory, product.x, weight, rows);
  if (rows <= INT4_MAX_ROWS && !alwaysDecodes) {
    const { counters, partials } = memory;
    const args = { x, weight: matrix, bias, out: y, numRows: rows, counters, partials };
    const form = groupForm(stream, rows, matrix, "whole");
    if (form === undefined) launchInt4Linear(stream, args);
    else launchInt4Group(stream, args, form);
    return;
  }
  launchInt4Decode(stream, matrix, memory.decoded);
  const { outputs, inputs } = matrix;
  const shape = { rows, outputs, inputs, inputType: "bf16", outputType: "bf16", scales: "none" } as const;
  products.run({ ...shape, hasBias: bias !== undefined, x, weight: memory.decoded, y, bias });
}

/** The first half of the matrix activated, times the second: bf16 [rows, half of the outputs]. False where nothing was done. */
export function enqueueInt4Gated(
  stream: KernelStream,
  memory: Int4Memory,
  { x, weight, rows, y }: Pick<Int4Product, "x" | "weight" | "rows" | "y">,
  gatedBy: CudaActivation,
): boolean {
  const matrix = int4Weight(weight);
  const form = groupForm(stream, rows, matrix, "gated");
  if (form === undefined) return false;
  const { counters, partials } = memory;
  const scaled = enqueueScaledRows(stream, memory, x, weight, rows);
  launchInt4Group(stream, { x: scaled, weight: matrix, out: y, numRows: rows, counters, partials, gatedBy }, form);
  return true;
}

/** Sums in several parts at `parts`, for a reader that adds them up: how many, or undefined where nothing was done. */
export function enqueueInt4Parts(
  stream: KernelStream,
  memory: Int4Memory,
  { x, weight, rows }: Pick<Int4Product, "x" | "weight" | "rows">,
  parts: DevicePointer,
): number | undefined {
  const matrix = int4Weight(weight);
  const form = groupForm(stream, rows, matrix, "parts");
  if (form === undefined || form.splits === 1) return undefined;
  const scaled = enqueueScaledRows(stream, memory, x, weight, rows);
  const places = { out: parts, partials: parts, counters: memory.counters };
  launchInt4Group(stream, { x: scaled, weight: matrix, numRows: rows, ...places, leavesParts: true }, form);
  return form.splits;
}

function groupForm(
  stream: KernelStream,
  rows: number,
  weight: Int4CudaWeight,
  use: Int4GroupUse,
): Int4GroupForm | undefined {
  return rows < MIN_GROUP_ROWS ? undefined : int4GroupForm(stream, rows, weight, use);
}

/** Rows times the scales of their inputs, where there are any. */
function enqueueScaledRows(
  stream: KernelStream,
  memory: Int4Memory,
  x: DevicePointer,
  { inputScales: factors, shape }: CudaTensor,
  rows: number,
): DevicePointer {
  if (factors === undefined) return x;
  const [, width = 0] = shape;
  launchScaleColumns(stream, { type: "bf16", x, factors, out: memory.scaled, count: rows * width, width });
  return memory.scaled;
}

/** The tensor of a matrix that lies at `address` so. */
export function int4Tensor(address: DevicePointer, shape: CudaTensor["shape"], layout: Int4Layout): CudaTensor {
  const { scalesAt, zerosAt, inputScalesAt, groupSize } = layout;
  const zeros = zerosAt === undefined ? undefined : address + BigInt(zerosAt);
  const inputScales = inputScalesAt === undefined ? undefined : address + BigInt(inputScalesAt);
  return { address, type: "int4", shape, scales: address + BigInt(scalesAt), zeros, inputScales, groupSize };
}

function int4Weight({ address, shape, scales, zeros, groupSize }: CudaTensor): Int4CudaWeight {
  const [outputs = 0, inputs = 0] = shape;
  if (scales === undefined || groupSize === undefined) throw new Error("a matrix of 4 bits without scales");
  return { codes: address, scales, zeros, outputs, inputs, groupSize };
}
