/**
 * INT4 matrices of a decoder on a GPU: which become such, how files fill them, and the workspaces of their GEMMs. It knows no
 * layer.
 */
import { INT4_MAX_ROWS, type Int4Device, int4WorkspaceBytes } from "../../../kernels/int4-linear/int4-linear.cuda.ts";
import { INT4_BLOCK, type PackedInt4, packInt4 } from "../../../kernels/int4-linear/pack-int4.ts";
import { quantizeInt4 } from "../../../kernels/int4-linear/quantize-int4.ts";
import { type CudaTensor, type Int4Groups, layOut } from "../../device/cuda/cuda-tensor.ts";
import { gemmRows } from "../../device/cuda/dense-gemm.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import { planRegions, type RegionPlan } from "../../device/cuda/regions.ts";
import type { StoredInt4Matrix } from "../../formats/tensors/stored-int4.ts";
import type { TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { WeightPlan } from "../weights/weight-plan.ts";

/** Group sizes for floats that become INT4: the largest that divides the inputs is used. */
const GROUP_SIZES: readonly number[] = [128, 64, 32];

/** Positions of the parts of an INT4 matrix. */
export interface Int4Layout extends Int4Groups {
  readonly scalesAt: number;
  readonly zerosAt: number | undefined;
  readonly inputScalesAt: number | undefined;
  readonly numBytes: number;
}

/**
 * How a matrix is kept in INT4; undefined when it is not. Stored INT4 stays INT4; floats become INT4 when `isWanted`.
 * Only stored INT4 has zero points: conversion from floats is symmetric.
 */
export function planInt4Matrix(
  { shape, sources }: WeightPlan,
  files: Pick<TensorSource, "integers">,
  isWanted: boolean,
): Int4Layout | undefined {
  const [outputs = 0, inputs = 0] = shape;
  if (shape.length !== 2 || outputs % INT4_BLOCK !== 0 || inputs % INT4_BLOCK !== 0) return undefined;
  if (sources.some(({ change, rows }) => change !== "none" || rows !== undefined)) return undefined;
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

/** Rows that become INT4 at a time. */
const PIECE_ROWS = 512;

/** A whole matrix in the order of the kernel. @throws Error naming the tensor that INT4 cannot hold */
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

/**
 * Workspaces of the GEMMs of all INT4 matrices: counters, which are zero between GEMMs, partial sums, the matrix decoded to bf16
 * while many rows are multiplied with it, and rows with each input times its own scale.
 */
type Workspace = "counters" | "partials" | "decoded" | "scaled";
export type Int4Scratch = RegionPlan<Workspace>;
/** Addresses of the workspaces. */
export type Int4Memory = Readonly<Record<Workspace, DevicePointer>>;

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
    if (hasInputScales) scaled = Math.max(scaled, 2 * gemmRows(maxRows) * inputs);
    const bytes = int4WorkspaceBytes(device, thin, outputs, inputs);
    counters = Math.max(counters, bytes.counters);
    partials = Math.max(partials, bytes.partials);
    if (maxRows > INT4_MAX_ROWS || alwaysDecodes) decoded = Math.max(decoded, 2 * outputs * inputs);
  }
  return planRegions({ counters, partials, decoded, scaled });
}

function uniqueShapes(shapes: readonly Int4Shape[]): Iterable<Int4Shape> {
  return new Map(shapes.map((shape) => [Object.values(shape).join(" "), shape])).values();
}

/** The tensor of a matrix that lies at `address` so. */
export function int4Tensor(address: DevicePointer, shape: CudaTensor["shape"], layout: Int4Layout): CudaTensor {
  const { scalesAt, zerosAt, inputScalesAt, groupSize } = layout;
  const zeros = zerosAt === undefined ? undefined : address + BigInt(zerosAt);
  const inputScales = inputScalesAt === undefined ? undefined : address + BigInt(inputScalesAt);
  return { address, type: "int4", shape, scales: address + BigInt(scalesAt), zeros, inputScales, groupSize };
}
