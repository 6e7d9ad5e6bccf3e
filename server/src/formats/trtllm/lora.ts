/**
 * Parses a TensorRT-LLM LoRA adapter: one row of weights and one row of three integers per module. Source: TensorRT-LLM
 * documentation, "Run gpt-2b + LoRA". Untrusted numbers in, checked changes out. The scale is already in the weights.
 */
import {
  type LoraAdapter,
  type LoraChange,
  type LoraTargets,
  MAX_LORA_CHANGES,
  MAX_LORA_RANK,
} from "../lora/lora-adapter.ts";

export interface TrtllmLora {
  readonly numRows: number;
  /** [numRows, width]: A [rank, inputs], then B [outputs, rank], then padding. */
  readonly weights: Float32Array;
  /** [numRows, 3]: module id, layer, rank; rank 0 marks a padding row. */
  readonly config: Int32Array;
}

const CONFIG_COLUMNS = 3;

/** @throws Error naming the row */
export function parseTrtllmLora({ numRows, weights, config }: TrtllmLora, targets: LoraTargets): LoraAdapter {
  if (numRows < 1 || numRows > MAX_LORA_CHANGES || config.length !== numRows * CONFIG_COLUMNS) {
    throw new Error(
      `lora_config: expected ${numRows} rows of 3 as lora_weights has rows, got ${config.length} numbers`,
    );
  }
  const width = weights.length / numRows;
  const changes: LoraChange[] = [];
  for (let row = 0; row < numRows; row++) {
    const [id = 0, layer = 0, rank = 0] = config.subarray(row * CONFIG_COLUMNS, (row + 1) * CONFIG_COLUMNS);
    if (rank === 0) continue;
    const numbers = weights.subarray(row * width, (row + 1) * width);
    changes.push(parseRow({ row, id, layer, rank, numbers }, targets));
  }
  if (changes.length === 0) throw new Error("lora_config: expected a row of a rank above zero");
  return { changes };
}

interface Row {
  readonly row: number;
  readonly id: number;
  readonly layer: number;
  readonly rank: number;
  readonly numbers: Float32Array;
}

function parseRow({ row, id, layer, rank, numbers }: Row, targets: LoraTargets): LoraChange {
  const at = `lora_config row ${row}`;
  const target = targets.moduleIds.get(id);
  const known = [...targets.moduleIds.keys()].join(", ");
  if (target === undefined) throw new Error(`${at}: expected module id ${known}, got ${id}`);
  if (layer < 0 || layer >= targets.numLayers)
    throw new Error(`${at}: expected layer 0 to ${targets.numLayers - 1}, got ${layer}`);
  if (targets.expertLayers.has(layer) && target.linear.startsWith("mlp"))
    throw new Error(`${at}: module id ${id} of layer ${layer} is of experts, which adapters cannot change`);
  if (rank < 1 || rank > MAX_LORA_RANK) throw new Error(`${at}: expected rank 1 to ${MAX_LORA_RANK}, got ${rank}`);
  const lengthOfA = rank * target.inputs;
  const length = lengthOfA + target.outputs * rank;
  if (length > numbers.length) {
    throw new Error(
      `${at}: expected ${length} numbers of lora_weights for rank ${rank} of ${target.inputs} inputs and ` +
        `${target.outputs} outputs, got ${numbers.length}`,
    );
  }
  return { layer, target, rank, a: numbers.slice(0, lengthOfA), b: numbers.slice(lengthOfA, length) };
}
