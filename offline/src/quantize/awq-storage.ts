/**
 * INT4 with a scale per group of inputs: TensorRT-LLM's W4A16_AWQ (Lin et al. 2023). A byte holds an even output in the
 * low nibble and the next one in the high nibble, [outputs / 2, inputs].
 */
import { FP8_MAX } from "@nereid/server/core/fp8";
import { fp16ToNumber, numberToFp16 } from "@nereid/server/core/fp16";
import { ToolError } from "@nereid/server/files/tool-error";
import type { SafetensorsEntry } from "../checkpoint/safetensors-writer.ts";
import { groupScale, levelOf } from "./group-rounding.ts";
import { evenRowPieces, type LinearStorage, type RankMatrix, type WriteTensor } from "./linear-storage.ts";

const LARGEST_LEVEL = 7;

export interface AwqStorageOptions {
  readonly groupSize: number;
  /** Importance of each input, by module; undefined: scales do not clip. */
  importanceOf(module: string): Float32Array | undefined;
  /** Set for W4A8_AWQ, whose inputs are FP8 with a scale of their own. */
  readonly largestInputOf?: (module: string) => number | undefined;
}

export class AwqStorage implements LinearStorage {
  readonly #options: AwqStorageOptions;

  constructor(options: AwqStorageOptions) {
    this.#options = options;
  }

  plan({ module, numExperts, numRows, columns }: Omit<RankMatrix, "read">): readonly SafetensorsEntry[] {
    const { groupSize } = this.#options;
    const rows = numRows / (numExperts ?? 1);
    if (columns.count % groupSize !== 0) {
      throw new ToolError(
        `${module} has ${columns.count} inputs on a rank, which groups of ${groupSize} do not divide`,
        {
          fix: "Give a smaller --awq_block_size, such as 64 or 32",
        },
      );
    }
    if (rows % 2 !== 0) throw new ToolError(`${module} has ${rows} outputs on a rank, an odd number`);
    const lead = numExperts === undefined ? [] : [numExperts];
    const plans: readonly SafetensorsEntry[] = [
      { name: `${module}.weight`, dtype: "I8", shape: [...lead, rows / 2, columns.count] },
      { name: `${module}.weights_scaling_factor`, dtype: "F16", shape: [...lead, rows, columns.count / groupSize] },
    ];
    if (this.#options.largestInputOf === undefined) return plans;
    const one = (kind: string): SafetensorsEntry => ({ name: `${module}.${kind}`, dtype: "F32", shape: [1] });
    return [...plans, one("activation_scaling_factor"), one("weights_scaling_factor_2")];
  }

  async write(matrix: RankMatrix, write: WriteTensor): Promise<void> {
    const { module, numRows, numColumns, columns } = matrix;
    const groupsPerRow = columns.count / this.#options.groupSize;
    const scales = new Uint16Array(numRows * groupsPerRow);
    const importance = this.#options.importanceOf(module)?.subarray(columns.first, columns.first + columns.count);
    for (const [first, count] of evenRowPieces(numRows, numColumns)) {
      const values = await matrix.read(first, count);
      const packed = new Uint8Array((count / 2) * columns.count);
      for (let i = 0; i < count; i++) {
        const start = i * numColumns + columns.first;
        const row = values.subarray(start, start + columns.count);
        const own = scales.subarray((first + i) * groupsPerRow, (first + i + 1) * groupsPerRow);
        this.#packRow(packed.subarray((i >> 1) * columns.count), row, i % 2 === 0 ? 0 : 4, own, importance);
      }
      await write(`${module}.weight`, packed);
    }
    await write(`${module}.weights_scaling_factor`, new Uint8Array(scales.buffer));
    const { largestInputOf } = this.#options;
    if (largestInputOf === undefined) return;
    const inputScale = (largestInputOf(module) ?? FP8_MAX) / FP8_MAX;
    await write(`${module}.activation_scaling_factor`, new Uint8Array(Float32Array.of(inputScale).buffer));
    // A group's scale is FP8 as well, times this.
    const largestScale = scales.reduce((largest, bits) => Math.max(largest, fp16ToNumber(bits)), 0);
    const second = largestScale === 0 ? 1 : (largestScale * LARGEST_LEVEL) / FP8_MAX;
    await write(`${module}.weights_scaling_factor_2`, new Uint8Array(Float32Array.of(second).buffer));
  }

  #packRow(
    into: Uint8Array,
    row: Float32Array,
    shift: number,
    scales: Uint16Array,
    importance: Float32Array | undefined,
  ): void {
    const { groupSize } = this.#options;
    for (let group = 0; group < scales.length; group++) {
      const [from, to] = [group * groupSize, (group + 1) * groupSize];
      const scale = groupScale(row.subarray(from, to), importance?.subarray(from, to));
      scales[group] = numberToFp16(scale);
      for (let i = from; i < to; i++) into[i] = (into[i] ?? 0) | ((levelOf(row[i] ?? 0, scale) & 15) << shift);
    }
  }
}
