/**
 * Presents FP8 tensors as ordinary ones: each element times the scale of its tensor, row or block, in FP32. Source: FP8
 * Formats for Deep Learning, Micikevicius et al. 2022. Rows are converted while they are read; only scales stay in
 * memory.
 */
import { fp8Levels } from "../../core/fp8.ts";
import { readFloats } from "../tensors/read-floats.ts";
import { expectTensorRange, type StoredTensor, type TensorSource, tensorBytes } from "../tensors/tensor-source.ts";
import { e5m2Values, e8m0Values } from "./fp8-values.ts";

export interface Fp8Options {
  /** Rows and columns that share a scale, when scales form a grid. */
  readonly block: readonly [rows: number, columns: number];
  /** Missing scales are an error when the checkpoint declares them: the values would be wrong. */
  readonly needsScales: boolean;
}

/** Whether any tensor has to be converted. */
export function hasFp8({ tensors }: TensorSource): boolean {
  return [...tensors.values()].some(({ dtype }) => VALUES.has(dtype));
}

/** Takes ownership of the source. @throws Error naming the tensor whose scales are missing or do not fit */
export function widenFp8Tensors(source: TensorSource, options: Fp8Options): TensorSource {
  return new WidenedTensors(source, options);
}

const VALUES: ReadonlyMap<StoredTensor["dtype"], () => Float32Array> = new Map([
  ["F8_E4M3", fp8Levels],
  ["F8_E5M2", e5m2Values],
]);
/** Both names hold multipliers, although one is called an inverse. */
const SCALE_NAMES = ["_scale", "_scale_inv"] as const;
const F32_BYTES = 4;

interface Scaled {
  /** Undefined: all scales are 1. */
  readonly scale: StoredTensor | undefined;
  readonly rows: number;
  readonly columns: number;
  readonly blockRows: number;
  readonly blockColumns: number;
  readonly values: Float32Array;
}

class WidenedTensors implements TensorSource {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly #source: TensorSource;
  readonly #scaled = new Map<string, Scaled>();
  #last: { readonly name: string; readonly scales: Promise<Float32Array> } | undefined;

  constructor(source: TensorSource, options: Fp8Options) {
    this.#source = source;
    const tables = new Map([...VALUES].map(([dtype, make]) => [dtype, make()]));
    const tensors = new Map<string, StoredTensor>();
    for (const [name, tensor] of source.tensors) {
      const values = tables.get(tensor.dtype);
      tensors.set(name, values === undefined ? tensor : widened(tensor));
      if (values !== undefined) this.#scaled.set(name, describe(source, tensor, options, values));
    }
    this.tensors = tensors;
  }

  async read(name: string, into: Uint8Array, byteOffset = 0): Promise<void> {
    const scaled = this.#scaled.get(name);
    if (scaled === undefined) {
      await this.#source.read(name, into, byteOffset);
      return;
    }
    expectTensorRange(this.tensors, name, into.byteLength, byteOffset);
    const first = Math.floor(byteOffset / F32_BYTES);
    const count = Math.ceil((byteOffset + into.byteLength) / F32_BYTES) - first;
    const stored = new Uint8Array(count);
    await this.#source.read(name, stored, first);
    const wide = widen(stored, first, scaled, await this.#scales(name, scaled));
    const start = byteOffset - first * F32_BYTES;
    into.set(new Uint8Array(wide.buffer).subarray(start, start + into.byteLength));
  }

  async close(): Promise<void> {
    this.#last = undefined;
    await this.#source.close();
  }

  #scales(name: string, { scale }: Scaled): Promise<Float32Array> {
    if (scale === undefined) return Promise.resolve(Float32Array.of(1));
    if (this.#last?.name !== name) this.#last = { name, scales: readScales(this.#source, scale) };
    return this.#last.scales;
  }
}

function widened({ name, shape }: StoredTensor): StoredTensor {
  return { name, dtype: "F32", shape, byteLength: tensorBytes("F32", shape) };
}

function describe(source: TensorSource, tensor: StoredTensor, options: Fp8Options, values: Float32Array): Scaled {
  const { name, shape } = tensor;
  const columns = shape.at(-1) ?? 1;
  const rows = shape.slice(0, -1).reduce((product, size) => product * size, 1);
  const scale = SCALE_NAMES.map((ending) => source.tensors.get(name + ending)).find((found) => found !== undefined);
  if (scale === undefined) {
    if (options.needsScales)
      throw new Error(`the weights lack tensor "${name}_scale", by which "${name}" is multiplied`);
    return { scale, rows, columns, blockRows: rows, blockColumns: columns, values };
  }
  const [blockRows, blockColumns] = blockOf(scale, tensor, rows, columns, options.block);
  return { scale, rows, columns, blockRows, blockColumns, values };
}

/** Elements that share a scale: the tensor, a row, or a block of a grid. */
function blockOf(
  scale: StoredTensor,
  tensor: StoredTensor,
  rows: number,
  columns: number,
  [blockRows, blockColumns]: readonly [number, number],
): readonly [rows: number, columns: number] {
  const isScale = ["F32", "F16", "BF16", "F8_E8M0"].includes(scale.dtype);
  const count = scale.shape.reduce((product, size) => product * size, 1);
  const [scaleRows = 0, scaleColumns = 1] = scale.shape;
  if (isScale && count === 1) return [rows, columns];
  if (isScale && scale.shape.length <= 2 && scaleRows === rows && scaleColumns === 1) return [1, columns];
  const grid = [Math.ceil(rows / blockRows), Math.ceil(columns / blockColumns)];
  const isGrid = scale.shape.length === 2 && scaleRows === grid[0] && scaleColumns === grid[1];
  if (isScale && isGrid && tensor.shape.length === 2) return [blockRows, blockColumns];
  throw new Error(
    `tensor "${scale.name}": expected floats [1], [${rows}, 1] or [${grid.join(", ")}] for [${tensor.shape.join(", ")}], ` +
      `got ${scale.dtype}[${scale.shape.join(", ")}]`,
  );
}

async function readScales(source: TensorSource, scale: StoredTensor): Promise<Float32Array> {
  if (scale.dtype !== "F8_E8M0") return readFloats(source, scale.name);
  const bytes = new Uint8Array(scale.byteLength);
  await source.read(scale.name, bytes);
  const powers = e8m0Values();
  return Float32Array.from(bytes, (byte) => powers[byte] ?? 0);
}

/** Converts elements from `first` on, one run within a block at a time. */
function widen(stored: Uint8Array, first: number, scaled: Scaled, scales: Float32Array): Float32Array {
  const { columns, blockRows, blockColumns, values } = scaled;
  const perRow = Math.ceil(columns / blockColumns);
  const out = new Float32Array(stored.length);
  let i = 0;
  while (i < stored.length) {
    const row = Math.floor((first + i) / columns);
    const column = (first + i) % columns;
    const blockColumn = Math.floor(column / blockColumns);
    const scale = scales[Math.floor(row / blockRows) * perRow + blockColumn] ?? 0;
    const end = Math.min(stored.length, i + Math.min(columns, (blockColumn + 1) * blockColumns) - column);
    for (; i < end; i++) out[i] = (values[stored[i] ?? 0] ?? 0) * scale;
  }
  return out;
}
