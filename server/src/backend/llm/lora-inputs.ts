/**
 * Which adapter a row asks for: a task of TensorRT-LLM by its number, with its matrices the first time, or one of the
 * model's own by name or folder. Pure; whether there is such an adapter is the engine's to say.
 */
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { AdapterChoice } from "../../engine/adapters/adapter-choice.ts";
import type { RowInputs } from "./row-inputs.ts";

/** @throws ServerError when the inputs do not fit together */
export function readAdapter(inputs: RowInputs): AdapterChoice | undefined {
  const task = inputs.bigint("lora_task_id");
  const name = inputs.text("lora_name");
  const path = inputs.text("lora_path");
  const source = inputs.text("lora_ckpt_source");
  if (source !== undefined && source !== "hf") {
    throw new ServerError("unsupported", `input 'lora_ckpt_source' is '${source}', expected 'hf'`);
  }
  if (task === undefined) return readNamed(inputs, name, path);
  if (name !== undefined || path !== undefined) {
    throw invalidArgument("inputs 'lora_task_id' and 'lora_name' or 'lora_path' name two adapters, expected one");
  }
  return { kind: "task", id: BigInt.asUintN(64, task), matrices: readMatrices(inputs) };
}

function readNamed(inputs: RowInputs, name: string | undefined, path: string | undefined): AdapterChoice | undefined {
  for (const matrix of ["lora_weights", "lora_config"]) {
    if (inputs.has(matrix))
      throw invalidArgument(`input '${matrix}' needs 'lora_task_id', by which it is known from then on`);
  }
  if (name !== undefined) return { kind: "name", text: name };
  if (path !== undefined) return { kind: "path", text: path };
  if (inputs.has("lora_id"))
    throw invalidArgument("input 'lora_id' needs 'lora_name' or 'lora_path': it names no adapter here");
  return undefined;
}

type Matrices = (AdapterChoice & { readonly kind: "task" })["matrices"];

function readMatrices(inputs: RowInputs): Matrices {
  const hasWeights = inputs.has("lora_weights");
  if (hasWeights !== inputs.has("lora_config")) {
    throw invalidArgument(
      "inputs 'lora_weights' and 'lora_config' come together: each row of one describes one of the other",
    );
  }
  if (!hasWeights) return undefined;
  const weights = inputs.floats("lora_weights");
  const config = inputs.ints("lora_config");
  if (weights === undefined || config === undefined) return undefined;
  return { numRows: inputs.matrixRows("lora_weights"), weights, config };
}
