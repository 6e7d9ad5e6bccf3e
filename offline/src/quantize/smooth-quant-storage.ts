/**
 * INT8 with a scale per output, for INT8 activations: TensorRT-LLM's W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN (Xiao et al.
 * 2022). Smoothing was folded in before; written smoothers are neutral.
 */

import type { SafetensorsEntry } from "../checkpoint/safetensors-writer.ts";
import { type LinearStorage, type RankMatrix, rowPieces, type WriteTensor } from "./linear-storage.ts";

const LARGEST_LEVEL = 127;
/** Their inputs are computed inside the layer, where TensorRT-LLM expects a smoother. */
const SMOOTHED = /\.(attention\.dense|mlp\.proj)$/;
/** Norms whose outputs are inputs of matrices. */
const NORM = /^(transformer\.layers\.\d+)\.(input_layernorm|post_layernorm|pre_feedforward_layernorm)\.weight$/;

export class SmoothQuantStorage implements LinearStorage {
  plan({ module, numExperts, numRows, columns }: Omit<RankMatrix, "read">): readonly SafetensorsEntry[] {
    const lead = numExperts === undefined ? [] : [numExperts];
    const rows = numRows / (numExperts ?? 1);
    const smoother: SafetensorsEntry = { name: `${module}.smoother`, dtype: "F32", shape: [1, columns.count] };
    return [
      { name: `${module}.weight`, dtype: "I8", shape: [...lead, rows, columns.count] },
      {
        name: `${module}.per_channel_scale`,
        dtype: "F32",
        shape: numExperts === undefined ? [1, rows] : [...lead, rows],
      },
      ...(SMOOTHED.test(module) && numExperts === undefined ? [smoother] : []),
    ];
  }

  /** Scalars for static output scales of norms; unused with per-token scales. */
  ones(names: ReadonlySet<string>): readonly string[] {
    return [...names].flatMap((name) => {
      const [, layer, norm] = NORM.exec(name) ?? [];
      if (layer === undefined || norm === undefined) return [];
      const isAttentionOutputNorm = norm === "post_layernorm" && names.has(`${layer}.pre_feedforward_layernorm.weight`);
      return isAttentionOutputNorm ? [] : [`${layer}.${norm}.scale_to_int`];
    });
  }

  async write(matrix: RankMatrix, write: WriteTensor): Promise<void> {
    const { module, numRows, numColumns, columns } = matrix;
    const scales = new Float32Array(numRows);
    for (const [first, count] of rowPieces(numRows, numColumns)) {
      const values = await matrix.read(first, count);
      const levels = new Int8Array(count * columns.count);
      for (let i = 0; i < count; i++) {
        const row = values.subarray(i * numColumns, (i + 1) * numColumns);
        const scale = largestOf(row) / LARGEST_LEVEL;
        scales[first + i] = scale;
        if (scale === 0) continue;
        for (let k = 0; k < columns.count; k++) {
          levels[i * columns.count + k] = Math.round((row[columns.first + k] ?? 0) / scale);
        }
      }
      await write(`${module}.weight`, new Uint8Array(levels.buffer));
    }
    await write(`${module}.per_channel_scale`, new Uint8Array(scales.buffer));
    if (!SMOOTHED.test(module) || matrix.numExperts !== undefined) return;
    await write(`${module}.smoother`, new Uint8Array(new Float32Array(columns.count).fill(1).buffer));
  }
}

function largestOf(values: Float32Array): number {
  let largest = 0;
  for (const value of values) largest = Math.max(largest, Math.abs(value));
  return largest;
}
