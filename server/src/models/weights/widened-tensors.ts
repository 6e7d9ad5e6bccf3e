/**
 * Weights that lie in blocks, as those of GGUF files, for a device that takes floats and INT4 groups: read as floats,
 * and those of q4_0 as the integers they are too. Knows no device and no file.
 */
import { fp16ToNumber } from "../../core/fp16.ts";
import { createElementConverter, type ElementConverter } from "../../device/cpu/element-converter.ts";
import type { StoredInt4Matrix } from "../../formats/tensors/stored-int4.ts";
import {
  expectTensorRange,
  type IntegerTensor,
  isPackedDtype,
  PACKED_BLOCKS,
  rowBytes,
  type StoredTensor,
  type TensorSource,
  tensorBytes,
} from "../../formats/tensors/tensor-source.ts";
import { weightTypeOf } from "./weight-types.ts";

/** The same source when nothing in it lies in blocks. Takes it over. */
export function widenBlocks(files: TensorSource): TensorSource {
  const isPacked = ({ name, dtype }: StoredTensor): boolean => isPackedDtype(dtype) && !files.integers?.has(name);
  const packed = [...files.tensors.values()].filter(isPacked);
  return packed.length === 0 ? files : new WidenedTensors(files, packed);
}

const { numElements: BLOCK, numBytes: BLOCK_BYTES } = PACKED_BLOCKS.Q4_0;
const HALF_BLOCK = 16;
/** Elements of the rows that are widened at a time. */
const PIECE_ELEMENTS: number = 1 << 22;

class WidenedTensors implements TensorSource {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly integers: ReadonlyMap<string, IntegerTensor>;
  readonly #files: TensorSource;
  readonly #packed: ReadonlyMap<string, StoredTensor>;
  #convert: ElementConverter | undefined;

  constructor(files: TensorSource, packed: readonly StoredTensor[]) {
    this.#files = files;
    this.#packed = new Map(packed.map((stored) => [stored.name, stored]));
    this.tensors = new Map(
      [...files.tensors].map(([name, stored]) => [name, this.#packed.has(name) ? wide(stored) : stored]),
    );
    const groups = packed.filter(({ dtype, shape }) => dtype === "Q4_0" && shape.length === 2);
    this.integers = new Map([
      ...(files.integers ?? []),
      ...groups.map((stored) => [stored.name, this.#integersOf(stored)] as const),
    ]);
  }

  async read(name: string, into: Uint8Array, byteOffset = 0): Promise<void> {
    const { shape } = expectTensorRange(this.tensors, name, into.byteLength, byteOffset);
    const stored = this.#packed.get(name);
    if (stored === undefined) return this.#files.read(name, into, byteOffset);
    const widthBytes = 4 * (shape.at(-1) ?? 1);
    const endRow = Math.ceil((byteOffset + into.byteLength) / widthBytes);
    const step = Math.max(1, Math.floor((4 * PIECE_ELEMENTS) / widthBytes));
    for (let row = Math.floor(byteOffset / widthBytes); row < endRow; row += step) {
      const rows = await this.#rows(stored, "f32", row, Math.min(step, endRow - row));
      const skipped = Math.max(0, byteOffset - row * widthBytes);
      const at = row * widthBytes + skipped - byteOffset;
      into.set(rows.subarray(skipped, skipped + into.byteLength - at), at);
    }
  }

  /** @throws Error for a tensor that does not lie in blocks */
  readWidened(name: string, type: "f32" | "bf16", firstRow: number, numRows: number): Promise<Uint8Array> {
    const stored = this.#packed.get(name);
    if (stored === undefined) throw new Error(`tensor "${name}" is not widened`);
    return this.#rows(stored, type, firstRow, numRows);
  }

  close(): Promise<void> {
    return this.#files.close();
  }

  #integersOf(stored: StoredTensor): IntegerTensor {
    return {
      int4: { groupSize: BLOCK, hasZeros: false, hasInputScales: false },
      readInt4: async () => fourBitsOf(stored, await this.#stored(stored, 0, stored.shape[0] ?? 0)),
      readFloats: async (row, count) => new Float32Array((await this.#rows(stored, "f32", row, count)).buffer),
    };
  }

  async #rows(stored: StoredTensor, to: "f32" | "bf16", row: number, count: number): Promise<Uint8Array> {
    const type = weightTypeOf(stored.dtype);
    if (type === undefined) throw new Error(`tensor "${stored.name}": ${stored.dtype} has no blocks`);
    this.#convert ??= createElementConverter();
    return this.#convert(type, to, await this.#stored(stored, row, count));
  }

  async #stored({ name, dtype, shape }: StoredTensor, row: number, count: number): Promise<Uint8Array> {
    const size = rowBytes(dtype, shape.at(-1) ?? 1);
    const bytes = new Uint8Array(count * size);
    await this.#files.read(name, bytes, row * size);
    return bytes;
  }
}

function wide({ name, dtype, shape }: StoredTensor): StoredTensor {
  return { name, dtype: "F32", shape, byteLength: tensorBytes("F32", shape), widenedFrom: dtype };
}

/** A block: its scale as a half, then the codes of its first half in low nibbles and of its second in high ones. */
function fourBitsOf({ shape: [outputs = 0, inputs = 0] }: StoredTensor, blocks: Uint8Array): StoredInt4Matrix {
  const numBlocks = (outputs * inputs) / BLOCK;
  const scales = new Float32Array(numBlocks);
  const codes = new Uint8Array((outputs * inputs) / 2);
  for (let block = 0; block < numBlocks; block++) {
    const from = block * BLOCK_BYTES;
    scales[block] = fp16ToNumber((blocks[from] ?? 0) | ((blocks[from + 1] ?? 0) << 8));
    const to = block * HALF_BLOCK;
    for (let i = 0; i < HALF_BLOCK; i += 2) {
      const [first = 0, second = 0] = [blocks[from + 2 + i], blocks[from + 3 + i]];
      codes[to + i / 2] = (first & 15) | ((second & 15) << 4);
      codes[to + (HALF_BLOCK + i) / 2] = (first >> 4) | (second & 0xf0);
    }
  }
  return { outputs, inputs, groupSize: BLOCK, codes, scales };
}

/** In words, what becomes of weights that lie in blocks; empty when none do. */
export function describeBlocks(
  placed: readonly { readonly type: string; readonly sources: readonly { readonly name: string }[] }[],
  { tensors }: Pick<TensorSource, "tensors">,
): string {
  const counts = new Map<string, number>();
  for (const { type, sources } of placed) {
    for (const { name } of sources) {
      const from = tensors.get(name)?.widenedFrom;
      if (from === undefined) continue;
      const what = `${from} as ${type}`;
      counts.set(what, (counts.get(what) ?? 0) + 1);
    }
  }
  return [...counts].map(([what, count]) => `${count} of ${what}`).join(", ");
}
