/**
 * FP8 (E4M3) with one scale per matrix, and one for its inputs from calibration: TensorRT-LLM's FP8 (Micikevicius et
 * al. 2022).
 */
import { FP8_MAX, numberToFp8 } from "@nereid/server/core/fp8";
import type { SafetensorsEntry } from "../checkpoint/safetensors-writer.ts";
import { type LinearStorage, type RankMatrix, rowPieces, type WriteTensor } from "./linear-storage.ts";

export class Fp8Storage implements LinearStorage {
  readonly takesOutput: boolean;
  readonly #largestInputOf: (module: string) => number | undefined;

  /** `largestInputOf` is undefined for unknown inputs, which are assumed to be in range. */
  constructor(largestInputOf: (module: string) => number | undefined, takesOutput: boolean) {
    this.#largestInputOf = largestInputOf;
    this.takesOutput = takesOutput;
  }

  plan({ module, numExperts, numRows, columns }: Omit<RankMatrix, "read">): readonly SafetensorsEntry[] {
    const lead = numExperts === undefined ? [] : [numExperts];
    const shape = [...lead, numRows / (numExperts ?? 1), columns.count];
    return [
      { name: `${module}.weight`, dtype: "F8_E4M3", shape },
      { name: `${module}.weights_scaling_factor`, dtype: "F32", shape: [1] },
      { name: `${module}.activation_scaling_factor`, dtype: "F32", shape: [1] },
    ];
  }

  /** Reads twice: for the scale, and for rounding. */
  async write(matrix: RankMatrix, write: WriteTensor): Promise<void> {
    const { module, numRows, numColumns, columns } = matrix;
    let largest = 0;
    for (const [first, count] of rowPieces(numRows, numColumns)) {
      for (const value of await matrix.read(first, count)) largest = Math.max(largest, Math.abs(value));
    }
    const scale = Math.fround(largest === 0 ? 1 : largest / FP8_MAX);
    for (const [first, count] of rowPieces(numRows, numColumns)) {
      const values = await matrix.read(first, count);
      const bytes = new Uint8Array(count * columns.count);
      for (let i = 0; i < count; i++) {
        const start = i * numColumns + columns.first;
        for (let k = 0; k < columns.count; k++)
          bytes[i * columns.count + k] = numberToFp8((values[start + k] ?? 0) / scale);
      }
      await write(`${module}.weight`, bytes);
    }
    await write(`${module}.weights_scaling_factor`, new Uint8Array(Float32Array.of(scale).buffer));
    const inputScale = (this.#largestInputOf(module) ?? FP8_MAX) / FP8_MAX;
    await write(`${module}.activation_scaling_factor`, new Uint8Array(Float32Array.of(inputScale).buffer));
  }
}
