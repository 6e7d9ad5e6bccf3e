/**
 * Assembles quantized matrices of a TensorRT-LLM checkpoint from the rank files, as Hugging Face matrices. Source:
 * TensorRT-LLM documentation, "Numerical Precision" and quantization/layers.py; SmoothQuant, Xiao et al. 2022. It opens
 * no file.
 */
import { fp8Levels } from "../../core/fp8.ts";
import { blocksFor, int4Groups, type QuantizedMatrix } from "../quantized/quantized-matrix.ts";
import { type VirtualMatrix, virtualMatrix } from "../quantized/quantized-tensors.ts";
import { readFloats } from "../tensors/read-floats.ts";
import type { TensorSource } from "../tensors/tensor-source.ts";
import { hasKernelLayout } from "./kernel-layout.ts";
import { type LayoutTensor, rankColumns, rankShape, rankSlices, stageTensors } from "./layout.ts";
import type { MergeOptions } from "./merge.ts";

export type TrtllmScheme = "awq" | "weight-only-8" | "weight-only-4" | "smooth-quant" | "fp8" | "gptq";

export interface TrtllmQuantization {
  readonly scheme: TrtllmScheme;
  /** AWQ group size when the config states none. */
  readonly groupSize: number;
}

export interface DescribedMatrices {
  readonly matrices: readonly VirtualMatrix[];
  /** Rank tensors that the matrices are made of. */
  isUsed(stage: number, name: string): boolean;
}

/** Rows of one rank's module that are rows of a Hugging Face matrix. */
interface MatrixPiece {
  readonly source: TensorSource;
  readonly module: StoredModule;
  readonly sourceRow: number;
  readonly row: number;
  readonly numRows: number;
  readonly firstColumn: number;
}

interface StoredModule {
  readonly name: string;
  readonly numExperts: number;
  /** Matrices of all experts. */
  readonly numRows: number;
  readonly numColumns: number;
}

const MODULE_SUFFIX = ".weight";
const INT4_MIDDLE = 8;
/** Format version 1 of GPTQ stores zero points minus one. */
const MAX_ZERO = 16;
/** Zero points were multiplied by the scale and rounded to FP16, so they are near integers only. */
const ZERO_TOLERANCE = 0.1;
const FLOATS: readonly string[] = ["F32", "F16", "BF16"];

/** @throws Error naming the tensor that is missing or does not fit */
export async function describeQuantized(
  ranks: readonly TensorSource[],
  { model, names, mapping }: Pick<MergeOptions, "model" | "names" | "mapping">,
  quantization: TrtllmQuantization | undefined,
): Promise<DescribedMatrices> {
  const { tpSize, ppSize } = mapping;
  const used = Array.from({ length: ppSize }, () => new Set<string>());
  if (quantization === undefined) return { matrices: [], isUsed: () => false };
  const pieces = new Map<string, { readonly shape: readonly number[]; readonly pieces: MatrixPiece[] }>();
  for (const [stage, names_] of used.entries()) {
    const sources = ranks.slice(stage * tpSize, (stage + 1) * tpSize);
    for (const tensor of stageTensors(model, names, names.prefixes[0] ?? "", mapping, stage)) {
      if (!isMatrix(tensor) || !isQuantized(sources[0], tensor)) continue;
      names_.add(tensor.name);
      addPieces(pieces, sources, tensor, quantization);
    }
  }
  const matrices: VirtualMatrix[] = [];
  for (const [name, draft] of pieces) {
    const isScaled = await hasInputScales(draft.pieces, quantization);
    matrices.push(describeMatrix(name, draft.shape, draft.pieces, quantization, isScaled));
  }
  return { matrices, isUsed: (stage, name) => used[stage]?.has(name) === true };
}

/** The lm_head may be quantized too. */
function isMatrix({ kind, name, columns }: LayoutTensor): boolean {
  return (kind === "linear" || name === "lm_head.weight") && columns !== undefined;
}

function isQuantized(source: TensorSource | undefined, { name }: LayoutTensor): boolean {
  const module = name.slice(0, -MODULE_SUFFIX.length);
  return ["weights_scaling_factor", "per_channel_scale"].some((kind) => source?.tensors.has(`${module}.${kind}`));
}

function addPieces(
  drafts: Map<string, { readonly shape: readonly number[]; readonly pieces: MatrixPiece[] }>,
  sources: readonly TensorSource[],
  tensor: LayoutTensor,
  quantization: TrtllmQuantization,
): void {
  const tpSize = sources.length;
  for (const [rank, source] of sources.entries()) {
    const shape = rankShape(tensor, rank, tpSize);
    const numColumns = shape.at(-1) ?? 0;
    const numExperts = tensor.numExperts ?? 1;
    const numRows = shape.slice(0, -1).reduce((product, size) => product * size, 1);
    const module = { name: tensor.name.slice(0, -MODULE_SUFFIX.length), numExperts, numRows, numColumns };
    expectModule(source, module, tensor.numExperts !== undefined, quantization);
    const { first: firstColumn } = rankColumns(tensor, rank, tpSize);
    let sourceRow = 0;
    for (const { part, sourceRow: row, numRows: count, isCopy } of rankSlices(tensor, rank, tpSize)) {
      const draft = drafts.get(part.name) ?? { shape: part.shape, pieces: [] };
      if (!isCopy) draft.pieces.push({ source, module, sourceRow, row, numRows: count, firstColumn });
      drafts.set(part.name, draft);
      sourceRow += count;
    }
  }
}

function expectModule(
  source: TensorSource,
  { name, numExperts, numRows, numColumns }: StoredModule,
  hasExperts: boolean,
  { scheme, groupSize }: TrtllmQuantization,
): void {
  const lead = hasExperts ? [numExperts] : [];
  const rows = numRows / numExperts;
  const integers = ["I8", "U8"];
  const weight = (dtypes: readonly string[], ...shape: number[]): void =>
    expectTensor(source, `${name}.weight`, dtypes, [...lead, ...shape]);
  switch (scheme) {
    case "awq":
    case "gptq":
      if (numColumns % groupSize !== 0) {
        throw new Error(`${name}: expected inputs of a multiple of ${groupSize}, got ${numColumns}`);
      }
      weight(integers, rows / 2, numColumns);
      for (const kind of scheme === "gptq" ? ["weights_scaling_factor", "zero"] : ["weights_scaling_factor"])
        expectTensor(source, `${name}.${kind}`, FLOATS, [...lead, rows, numColumns / groupSize]);
      return;
    case "weight-only-8":
      weight(integers, numColumns, rows);
      break;
    case "weight-only-4":
      weight(integers, numColumns, rows / 2);
      break;
    case "smooth-quant":
      weight(integers, rows, numColumns);
      break;
    case "fp8":
      weight(["F8_E4M3"], rows, numColumns);
      expectCount(source, `${name}.weights_scaling_factor`, 1);
      return;
  }
  expectCount(source, rowScalesName(source, name), numRows);
}

/** Two converters use different names for this tensor. */
function rowScalesName({ tensors }: TensorSource, module: string): string {
  const name = `${module}.per_channel_scale`;
  return tensors.has(name) ? name : `${module}.weights_scaling_factor`;
}

function describeMatrix(
  name: string,
  shape: readonly number[],
  pieces: readonly MatrixPiece[],
  { scheme, groupSize: awqGroupSize }: TrtllmQuantization,
  isScaled: boolean,
): VirtualMatrix {
  const [outputs = 0, inputs = 0] = shape;
  const isGrouped = scheme === "awq" || scheme === "gptq";
  const bits = isGrouped || scheme === "weight-only-4" ? 4 : 8;
  // A per-row scale of one rank is a per-group scale of the assembled row.
  const groupSize = isGrouped ? awqGroupSize : (pieces[0]?.module.numColumns ?? inputs);
  const draft = { bits, inputs, groupSize, groupOf: undefined } as const;
  const inputScales = isScaled ? new Float32Array(inputs) : undefined;
  const blocks = scheme === "fp8" ? undefined : blocksFor({ ...draft, inputScales }, scheme !== "gptq");
  const int4 = int4Groups({ ...draft, inputScales }, scheme !== "gptq");
  return virtualMatrix(name, [outputs, inputs], blocks, int4, async () => {
    const numGroups = inputs / groupSize;
    const matrix = {
      ...draft,
      outputs,
      values: new Uint8Array(outputs * inputs),
      numGroups,
      scales: new Float32Array(outputs * numGroups),
      zeros: new Uint16Array(outputs * numGroups).fill(scheme === "fp8" ? 0 : 2 ** (bits - 1)),
      inputScales,
      ...(scheme === "fp8" ? { levels: fp8Levels() } : {}),
    };
    for (const piece of pieces) await fillPiece(matrix, piece, scheme);
    return matrix;
  });
}

/** Multiplier of each input. SmoothQuant stores a divisor instead (`smoother`), which is often all ones. */
function inputScalesName({ name }: StoredModule): string {
  return `${name}.prequant_scaling_factor`;
}

function smootherName({ name }: StoredModule): string {
  return `${name}.smoother`;
}

async function hasInputScales(pieces: readonly MatrixPiece[], { scheme }: TrtllmQuantization): Promise<boolean> {
  for (const { source, module } of pieces) {
    if (source.tensors.has(inputScalesName(module))) return true;
    if (scheme !== "smooth-quant" || !source.tensors.has(smootherName(module))) continue;
    expectCount(source, smootherName(module), module.numColumns);
    const smoother = await readFloats(source, smootherName(module));
    if (smoother.some((value) => value !== 1)) return true;
  }
  return false;
}

async function fillPiece(matrix: QuantizedMatrix, piece: MatrixPiece, scheme: TrtllmScheme): Promise<void> {
  const { source, module, row, numRows, firstColumn } = piece;
  const { numColumns } = module;
  const values = await readValues(piece, scheme);
  for (let i = 0; i < numRows; i++) {
    const from = values.subarray(i * numColumns, (i + 1) * numColumns);
    matrix.values.set(from, (row + i) * matrix.inputs + firstColumn);
  }
  await fillScales(matrix, piece, scheme);
  if (scheme === "gptq") await fillZeros(matrix, piece);
  if (matrix.inputScales === undefined) return;
  if (source.tensors.has(inputScalesName(module))) {
    matrix.inputScales.set(await readFloats(source, inputScalesName(module)), firstColumn);
  } else if (source.tensors.has(smootherName(module))) {
    const smoother = await readFloats(source, smootherName(module));
    matrix.inputScales.set(
      smoother.map((value) => 1 / value),
      firstColumn,
    );
  }
}

async function fillScales(matrix: QuantizedMatrix, piece: MatrixPiece, scheme: TrtllmScheme): Promise<void> {
  const { source, module, sourceRow, row, numRows, firstColumn } = piece;
  const isGrouped = ["awq", "gptq", "fp8"].includes(scheme);
  const scales = await readFloats(
    source,
    isGrouped ? `${module.name}.weights_scaling_factor` : rowScalesName(source, module.name),
  );
  const firstGroup = firstColumn / matrix.groupSize;
  const perRow = scheme === "fp8" ? 1 : scales.length / module.numRows;
  for (let i = 0; i < numRows; i++) {
    for (let group = 0; group < perRow; group++) {
      const from = scheme === "fp8" ? 0 : (sourceRow + i) * perRow + group;
      matrix.scales[(row + i) * matrix.numGroups + firstGroup + group] = scales[from] ?? 0;
    }
  }
}

/** The file stores (8 - zero point) * scale. */
async function fillZeros(matrix: QuantizedMatrix, piece: MatrixPiece): Promise<void> {
  const { source, module, sourceRow, row, numRows, firstColumn } = piece;
  const added = await readFloats(source, `${module.name}.zero`);
  const perRow = added.length / module.numRows;
  const firstGroup = firstColumn / matrix.groupSize;
  for (let i = 0; i < numRows * perRow; i++) {
    const to = (row + Math.floor(i / perRow)) * matrix.numGroups + firstGroup + (i % perRow);
    const scale = matrix.scales[to] ?? 0;
    const zero = scale === 0 ? INT4_MIDDLE : INT4_MIDDLE - (added[sourceRow * perRow + i] ?? 0) / scale;
    const level = Math.round(zero);
    if (!(level >= 0 && level <= MAX_ZERO && Math.abs(zero - level) < ZERO_TOLERANCE)) {
      throw new Error(
        `tensor "${module.name}.zero": expected a level from 0 to ${MAX_ZERO} times the scale, got ${zero}`,
      );
    }
    matrix.zeros[to] = level;
  }
}

/** [numRows, columns of the rank], unsigned integers centred on the middle of the range. */
async function readValues(piece: MatrixPiece, scheme: TrtllmScheme): Promise<Uint8Array> {
  const { module, sourceRow, numRows } = piece;
  const { numColumns } = module;
  switch (scheme) {
    case "awq":
    case "gptq": {
      const firstByteRow = Math.floor(sourceRow / 2);
      const numByteRows = Math.ceil((sourceRow + numRows) / 2) - firstByteRow;
      const bytes = await readBytes(piece, firstByteRow * numColumns, numByteRows * numColumns);
      return unpackPairs(bytes, sourceRow % 2, numRows, numColumns);
    }
    case "weight-only-8":
    case "weight-only-4":
      return readTurned(piece, scheme === "weight-only-8" ? 8 : 4);
    case "smooth-quant":
      return (await readBytes(piece, sourceRow * numColumns, numRows * numColumns)).map((value) => value ^ 0x80);
    case "fp8":
      return readBytes(piece, sourceRow * numColumns, numRows * numColumns);
  }
}

async function readBytes({ source, module }: MatrixPiece, offset: number, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  await source.read(`${module.name}.weight`, bytes, offset);
  return bytes;
}

/**
 * A byte holds an even row in its low nibble and the next row in the high one. Adding 8 to a signed nibble flips its
 * highest bit.
 */
function unpackPairs(bytes: Uint8Array, firstRow: number, numRows: number, numColumns: number): Uint8Array {
  const out = new Uint8Array(numRows * numColumns);
  for (let i = 0; i < numRows; i++) {
    const start = ((firstRow + i) >> 1) * numColumns;
    const shift = (firstRow + i) % 2 === 0 ? 0 : 4;
    for (let column = 0; column < numColumns; column++) {
      out[i * numColumns + column] = (((bytes[start + column] ?? 0) >>> shift) & 15) ^ 8;
    }
  }
  return out;
}

/** Rows of an [inputs, outputs] matrix; in INT4 an even output is in the low nibble. */
async function readTurned(piece: MatrixPiece, bits: 4 | 8): Promise<Uint8Array> {
  const { module, sourceRow, numRows } = piece;
  const { numColumns } = module;
  const rows = module.numRows / module.numExperts;
  const expert = Math.floor(sourceRow / rows);
  const width = bits === 8 ? rows : rows / 2;
  const bytes = await readBytes(piece, expert * numColumns * width, numColumns * width);
  if (hasKernelLayout(bytes, bits)) {
    throw new Error(
      `tensor "${module.name}.weight": expected integers in the order [inputs, outputs], got those that were laid out ` +
        "for the kernels of one GPU: convert the model again",
    );
  }
  const out = new Uint8Array(numRows * numColumns);
  for (let i = 0; i < numRows; i++) {
    const row = sourceRow + i - expert * rows;
    const at = bits === 8 ? row : row >> 1;
    const shift = 4 * (row % 2);
    for (let column = 0; column < numColumns; column++) {
      const byte = bytes[column * width + at] ?? 0;
      out[i * numColumns + column] = bits === 8 ? byte ^ 0x80 : ((byte >>> shift) & 15) ^ 8;
    }
  }
  return out;
}

function expectTensor(source: TensorSource, name: string, dtypes: readonly string[], shape: readonly number[]): void {
  const tensor = source.tensors.get(name);
  if (tensor === undefined) throw new Error(`the checkpoint lacks tensor "${name}"`);
  const fits = tensor.shape.length === shape.length && shape.every((size, i) => size === tensor.shape[i]);
  if (fits && dtypes.includes(tensor.dtype)) return;
  const got = `${tensor.dtype}[${tensor.shape.join(", ")}]`;
  throw new Error(`tensor "${name}": expected ${dtypes.join("|")}[${shape.join(", ")}], got ${got}`);
}

/** Some files have one extra dimension of size 1. */
function expectCount(source: TensorSource, name: string, count: number): void {
  const tensor = source.tensors.get(name);
  if (tensor === undefined) throw new Error(`the checkpoint lacks tensor "${name}"`);
  const got = tensor.shape.reduce((product, size) => product * size, 1);
  if (got === count && FLOATS.includes(tensor.dtype)) return;
  throw new Error(`tensor "${name}": expected ${count} floats, got ${tensor.dtype}[${tensor.shape.join(", ")}]`);
}
