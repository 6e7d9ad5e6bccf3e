/**
 * Reads the initial state files of a sequence model: `initial_state/<data_file>` of its folder (model_config.proto,
 * ModelSequenceBatching.InitialState).
 */
import { readFileSync } from "node:fs";
import type { ModelConfig } from "../../core/model-config.ts";
import { ServerError } from "../../core/server-error.ts";
import { resolveContained } from "../source/path-containment.ts";

const FOLDER = "initial_state";

/**
 * Contents by name of the state's input. @throws ServerError invalid_argument naming the state whose file cannot be
 * read
 */
export function readInitialStates(config: ModelConfig, modelFolder: string): ReadonlyMap<string, Uint8Array> {
  const contents = new Map<string, Uint8Array>();
  for (const { input_name, initial_state } of config.sequence_batching?.state ?? []) {
    const file = initial_state[0]?.data_file;
    if (file !== undefined) contents.set(input_name, readState(modelFolder, file, config.name, input_name));
  }
  return contents;
}

function readState(modelFolder: string, file: string, modelName: string, inputName: string): Uint8Array {
  try {
    return new Uint8Array(readFileSync(resolveContained(modelFolder, `${FOLDER}/${file}`)));
  } catch (error) {
    const reason = error instanceof ServerError ? error.message : `cannot read '${FOLDER}/${file}'`;
    const text = `failed to read initial_state of state '${inputName}' of model '${modelName}': ${reason}`;
    throw new ServerError("invalid_argument", text, { cause: error });
  }
}
