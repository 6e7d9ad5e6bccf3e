/**
 * Reads a LoRA adapter from the two .npy files of TensorRT-LLM's hf_lora_convert.py. Source: TensorRT-LLM
 * documentation, "LoRA".
 */
import { join } from "node:path";
import type { LoraAdapter, LoraTargets } from "../lora/lora-adapter.ts";
import { type NpyArray, readNpy } from "../tensors/npy.ts";
import { parseTrtllmLora } from "./lora.ts";

const WEIGHTS_FILE = "model.lora_weights.npy";
const CONFIG_FILE = "model.lora_config.npy";

/** @throws Error naming the file and what is wrong with it */
export async function readTrtllmLora(directory: string, targets: LoraTargets): Promise<LoraAdapter> {
  const weights = matrix(await readNpy(join(directory, WEIGHTS_FILE)));
  const config = matrix(await readNpy(join(directory, CONFIG_FILE)));
  try {
    if (weights === undefined || !(weights.values instanceof Float32Array))
      throw new Error(`${WEIGHTS_FILE}: expected floats [1, modules, width]`);
    if (config === undefined || !(config.values instanceof Int32Array) || config.columns !== 3)
      throw new Error(`${CONFIG_FILE}: expected integers [1, modules, 3]`);
    return parseTrtllmLora({ numRows: weights.rows, weights: weights.values, config: config.values }, targets);
  } catch (cause) {
    throw new Error(`${directory}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** Leading dimensions of size one are ignored. */
function matrix({
  shape,
  values,
}: NpyArray): { rows: number; columns: number; values: NpyArray["values"] } | undefined {
  const [columns = 0, rows = 0, ...outer] = shape.toReversed();
  return shape.length >= 2 && outer.every((size) => size === 1) ? { rows, columns, values } : undefined;
}
