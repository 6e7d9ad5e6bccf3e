/** The outputs that an inference request names, and those of them wanted as classes. */
import type { RequestedOutputMessage } from "@nereid/wire";
import { ServerError } from "../../core/server-error.ts";
import { refuseSharedMemory } from "./infer-inputs.ts";

const NO_NAMES: readonly string[] = [];
const NO_CLASSES: ReadonlyMap<string, number> = new Map();

export function outputNames(outputs: readonly RequestedOutputMessage[]): readonly string[] {
  return outputs.length === 0 ? NO_NAMES : outputs.map((output) => output.name);
}

/** Output name to number of classes. @throws ServerError for parameters that an output cannot have */
export function readClassifications(outputs: readonly RequestedOutputMessage[]): ReadonlyMap<string, number> {
  let classes: Map<string, number> | undefined;
  for (const output of outputs) {
    if (output.parameters.size === 0) continue;
    const count = readClassification(output);
    refuseSharedMemory(output);
    if (count === undefined) continue;
    classes ??= new Map();
    classes.set(output.name, count);
  }
  return classes ?? NO_CLASSES;
}

function readClassification(output: RequestedOutputMessage): number | undefined {
  const parameter = output.parameters.get("classification");
  if (parameter === undefined) return undefined;
  if (parameter.kind !== "int64") {
    throw invalid("invalid value type for 'classification' parameter, expected int64_param.");
  }
  if (parameter.value <= 0) throw invalid("invalid value for 'classification' parameter, expected >= 0");
  return Number(parameter.value);
}

function invalid(message: string): ServerError {
  return new ServerError("invalid_argument", message);
}
