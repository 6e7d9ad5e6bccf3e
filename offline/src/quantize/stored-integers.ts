/**
 * Converts INT4 models (AWQ and GPTQ folders) without rounding again: codes, scales and zero points move into
 * TensorRT-LLM's layout. Symmetric ones become W4A16_AWQ, others W4A16_GPTQ, whose zeros are (8 - zero point) * scale.
 */
import { numberToFp16 } from "@nereid/server/core/fp16";
import { ToolError } from "@nereid/server/files/tool-error";
import type { StoredInt4Matrix } from "@nereid/server/formats/tensors/stored-int4";
import type { TensorSource } from "@nereid/server/formats/tensors/tensor-source";
import type { LayoutTensor } from "@nereid/server/formats/trtllm/layout";
import type { Quantization } from "../checkpoint/checkpoint-config.ts";
import type { SafetensorsEntry } from "../checkpoint/safetensors-writer.ts";
import { evenRowPieces, type LinearStorage, type RankMatrix, type WriteTensor } from "./linear-storage.ts";

export interface IntegerKind {
  readonly groupSize: number;
  readonly hasZeros: boolean;
  readonly hasInputScales: boolean;
  /** Float matrices, by module of the checkpoint. */
  readonly floats: readonly string[];
}

const MIDDLE = 8;
const INFINITE_HALF = 0x7c00;

/** INT4 matrices of the model's layers. A text says why they cannot be kept; undefined: there are none. */
export function integersOf(
  layout: readonly LayoutTensor[],
  { integers }: Pick<TensorSource, "integers">,
): IntegerKind | string | undefined {
  const linears = layout.filter(({ kind, columns }) => kind === "linear" && columns !== undefined);
  const floats = linears.filter((tensor) => !areIntegers(tensor, integers));
  if (floats.some(({ parts }) => parts.some(({ name }) => integers?.has(name)))) {
    return "some are INT8, or in groups that are not contiguous";
  }
  const stored = linears.flatMap(({ parts }) => parts.flatMap(({ name }) => integers?.get(name)?.int4 ?? []));
  const [groupSize, ...others] = new Set(stored.map((one) => one.groupSize));
  if (groupSize === undefined) return undefined;
  if (others.length > 0) {
    return `a checkpoint has one size of groups, these have ${[groupSize, ...others].join(", ")}`;
  }
  return {
    groupSize,
    hasZeros: stored.some((one) => one.hasZeros),
    hasInputScales: stored.some((one) => one.hasInputScales),
    floats: floats.map(moduleOf),
  };
}

export function integerQuantization(kind: IntegerKind, cache: Quantization["kv_cache_quant_algo"]): Quantization {
  return {
    quant_algo: kind.hasZeros ? "W4A16_GPTQ" : "W4A16_AWQ",
    kv_cache_quant_algo: cache,
    group_size: kind.groupSize,
    has_zero_point: kind.hasZeros,
    pre_quant_scale: kind.hasInputScales,
    exclude_modules: ["lm_head", ...kind.floats],
  };
}

export class StoredIntegers implements LinearStorage {
  readonly #kind: IntegerKind;
  readonly #integers: NonNullable<TensorSource["integers"]>;
  #last: { readonly name: string; readonly matrix: StoredInt4Matrix } | undefined;

  constructor(kind: IntegerKind, { integers = new Map() }: Pick<TensorSource, "integers">) {
    this.#kind = kind;
    this.#integers = integers;
  }

  takes(tensor: LayoutTensor): boolean {
    return areIntegers(tensor, this.#integers);
  }

  plan({ module, numExperts, numRows, columns }: Omit<RankMatrix, "read">): readonly SafetensorsEntry[] {
    const { groupSize, hasZeros, hasInputScales } = this.#kind;
    const rows = numRows / (numExperts ?? 1);
    if (columns.count % groupSize !== 0) {
      throw new ToolError(
        `${module} has ${columns.count} inputs on a rank, which its groups of ${groupSize} do not divide`,
        { fix: "Give a smaller --tp_size" },
      );
    }
    if (rows % 2 !== 0) throw new ToolError(`${module} has ${rows} outputs on a rank, an odd number`);
    const lead = numExperts === undefined ? [] : [numExperts];
    const half = (kind: string, shape: readonly number[]): SafetensorsEntry => {
      return { name: `${module}.${kind}`, dtype: "F16", shape };
    };
    const perGroup = [...lead, rows, columns.count / groupSize];
    return [
      { name: `${module}.weight`, dtype: "I8", shape: [...lead, rows / 2, columns.count] },
      half("weights_scaling_factor", perGroup),
      ...(hasZeros ? [half("zero", perGroup)] : []),
      ...(hasInputScales ? [half("prequant_scaling_factor", [columns.count])] : []),
    ];
  }

  async write(matrix: RankMatrix, write: WriteTensor): Promise<void> {
    const { module, numRows, columns } = matrix;
    const numGroups = columns.count / this.#kind.groupSize;
    const out = { scales: new Uint16Array(numRows * numGroups), zeros: new Uint16Array(numRows * numGroups) };
    for (const [first, count] of evenRowPieces(numRows, columns.count)) {
      const packed = new Uint8Array((count / 2) * columns.count);
      await this.#fill(matrix, first, count, packed, out);
      await write(`${module}.weight`, packed);
    }
    await write(`${module}.weights_scaling_factor`, new Uint8Array(out.scales.buffer));
    if (this.#kind.hasZeros) await write(`${module}.zero`, new Uint8Array(out.zeros.buffer));
    if (this.#kind.hasInputScales) {
      await write(`${module}.prequant_scaling_factor`, new Uint8Array(this.#inputScales(matrix).buffer));
    }
    this.#last = undefined;
  }

  /** Rows from `first` on, of several concatenated parts. */
  async #fill(
    { slices, columns }: RankMatrix,
    first: number,
    count: number,
    packed: Uint8Array,
    out: GroupNumbers,
  ): Promise<void> {
    let start = 0;
    for (const { part, sourceRow, numRows } of slices) {
      const [from, to] = [Math.max(first, start), Math.min(first + count, start + numRows)];
      if (from < to) {
        const matrix = await this.#load(part.name);
        for (let row = from; row < to; row++) {
          const source = sourceRow + row - start;
          const into = packed.subarray(((row - first) >> 1) * columns.count);
          packCodes(matrix, source, columns, into, row % 2 === 0 ? 0 : 4);
          copyGroups(matrix, source, columns, row, out);
        }
      }
      start += numRows;
    }
  }

  async #load(name: string): Promise<StoredInt4Matrix> {
    if (this.#last?.name !== name) {
      this.#last = undefined;
      const stored = this.#integers.get(name);
      if (stored === undefined) throw new Error(`tensor "${name}" is no matrix of integers`);
      this.#last = { name, matrix: await stored.readInt4() };
    }
    return this.#last.matrix;
  }

  /** One list for all parts: they come from one module, or have none. */
  #inputScales({ columns }: RankMatrix): Uint16Array {
    const scales = this.#last?.matrix.inputScales;
    return Uint16Array.from({ length: columns.count }, (_, i) => toHalf(scales?.[columns.first + i] ?? 1));
  }
}

interface GroupNumbers {
  /** As FP16, per row and group of the rank. */
  readonly scales: Uint16Array;
  readonly zeros: Uint16Array;
}

function areIntegers({ parts, isTransposed }: LayoutTensor, integers: TensorSource["integers"]): boolean {
  return !isTransposed && parts.every(({ name }) => integers?.get(name)?.int4 !== undefined);
}

function moduleOf({ name }: LayoutTensor): string {
  return name.slice(0, -".weight".length);
}

/** A code minus 8 is a signed level: the highest bit flips. */
function packCodes(
  { codes, inputs }: StoredInt4Matrix,
  row: number,
  { first, count }: RankMatrix["columns"],
  into: Uint8Array,
  shift: number,
): void {
  const start = (row * inputs + first) / 2;
  for (let i = 0; i < count; i += 2) {
    const byte = (codes[start + i / 2] ?? 0) ^ 0x88;
    into[i] = (into[i] ?? 0) | ((byte & 15) << shift);
    into[i + 1] = (into[i + 1] ?? 0) | ((byte >>> 4) << shift);
  }
}

function copyGroups(
  { scales, zeros, inputs, groupSize }: StoredInt4Matrix,
  row: number,
  { first, count }: RankMatrix["columns"],
  toRow: number,
  out: GroupNumbers,
): void {
  const from = (row * inputs + first) / groupSize;
  const numGroups = count / groupSize;
  for (let group = 0; group < numGroups; group++) {
    const scale = scales[from + group] ?? 0;
    const zero = zeros?.[from + group] ?? MIDDLE;
    out.scales[toRow * numGroups + group] = toHalf(scale);
    out.zeros[toRow * numGroups + group] = toHalf((MIDDLE - zero) * scale);
  }
}

function toHalf(value: number): number {
  const bits = numberToFp16(value);
  if ((bits & INFINITE_HALF) === INFINITE_HALF) throw new ToolError(`A scale of ${value} is outside half precision`);
  return bits;
}
