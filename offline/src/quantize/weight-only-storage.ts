/**
 * Integers with a scale per output: TensorRT-LLM's W8A16 and W4A16. Weights are [inputs, outputs]; INT4 stores two
 * outputs per byte, the even one in the low nibble. The scale is that of the largest weight.
 */
import type { FloatType } from "@nereid/server/device/cpu/convert-elements";
import type { ElementConverter } from "@nereid/server/device/cpu/element-converter";
import type { SafetensorsDtype } from "@nereid/server/formats/tensors/safetensors-header";
import type { SafetensorsEntry } from "../checkpoint/safetensors-writer.ts";
import { type LinearStorage, type RankMatrix, rowPieces, type WriteTensor } from "./linear-storage.ts";

export type WeightOnlyBits = 4 | 8;

const DTYPES: Readonly<Record<FloatType, SafetensorsDtype>> = { f32: "F32", f16: "F16", bf16: "BF16" };

export class WeightOnlyStorage implements LinearStorage {
  readonly #bits: WeightOnlyBits;
  readonly #dtype: FloatType;
  readonly #convert: ElementConverter;

  /** `dtype` of the scales. */
  constructor(bits: WeightOnlyBits, dtype: FloatType, convert: ElementConverter) {
    this.#bits = bits;
    this.#dtype = dtype;
    this.#convert = convert;
  }

  plan({ module, numExperts, numRows, columns }: Omit<RankMatrix, "read">): readonly SafetensorsEntry[] {
    const rows = numRows / (numExperts ?? 1);
    if (this.#bits === 4 && rows % 2 !== 0)
      throw new Error(`${module}: expected an even number of outputs, got ${rows}`);
    const lead = numExperts === undefined ? [] : [numExperts];
    const width = this.#bits === 4 ? rows / 2 : rows;
    return [
      { name: `${module}.weight`, dtype: "I8", shape: [...lead, columns.count, width] },
      { name: `${module}.per_channel_scale`, dtype: DTYPES[this.#dtype], shape: [...lead, rows] },
    ];
  }

  async write(matrix: RankMatrix, write: WriteTensor): Promise<void> {
    const { module, numRows, numExperts = 1 } = matrix;
    const rows = numRows / numExperts;
    const scales = new Float32Array(numRows);
    for (let expert = 0; expert < numExperts; expert++) {
      const own = scales.subarray(expert * rows, (expert + 1) * rows);
      await write(`${module}.weight`, await this.#quantize(matrix, expert * rows, own));
    }
    const bytes = this.#convert("f32", this.#dtype, new Uint8Array(scales.buffer));
    await write(`${module}.per_channel_scale`, bytes);
  }

  /** [inputs, outputs] of the rows from `start` on; fills in their scales. */
  async #quantize(matrix: RankMatrix, start: number, scales: Float32Array): Promise<Uint8Array> {
    const { numColumns, columns } = matrix;
    const numRows = scales.length;
    const packed = this.#bits === 4 ? 2 : 1;
    const out = new Uint8Array((columns.count * numRows) / packed);
    for (const [first, count] of rowPieces(numRows, numColumns)) {
      const values = await matrix.read(start + first, count);
      for (let i = 0; i < count; i++) {
        const row = values.subarray(i * numColumns, (i + 1) * numColumns);
        scales[first + i] = this.#roundedScale(row);
        this.#packRow(out, row.subarray(columns.first, columns.first + columns.count), first + i, scales);
      }
    }
    return out;
  }

  /** Scale of the whole row, equal on all ranks, rounded to the stored type. */
  #roundedScale(row: Float32Array): number {
    let largest = 0;
    for (const value of row) largest = Math.max(largest, Math.abs(value));
    const scale = Float32Array.of(largest / largestLevel(this.#bits));
    const bytes = this.#convert("f32", this.#dtype, new Uint8Array(scale.buffer));
    return new Float32Array(this.#convert(this.#dtype, "f32", bytes).slice().buffer)[0] ?? 0;
  }

  #packRow(out: Uint8Array, values: Float32Array, row: number, scales: Float32Array): void {
    const scale = scales[row] ?? 0;
    const inverse = scale === 0 ? 0 : 1 / scale;
    const largest = largestLevel(this.#bits);
    const numRows = scales.length;
    for (let i = 0; i < values.length; i++) {
      const level = Math.max(-largest - 1, Math.min(largest, Math.round((values[i] ?? 0) * inverse)));
      if (this.#bits === 8) out[i * numRows + row] = level & 0xff;
      else {
        const at = (i * numRows + row) >>> 1;
        out[at] = (out[at] ?? 0) | ((level & 15) << (row % 2 === 0 ? 0 : 4));
      }
    }
  }
}

function largestLevel(bits: WeightOnlyBits): number {
  return 2 ** (bits - 1) - 1;
}
