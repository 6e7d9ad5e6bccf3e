/**
 * Requested outputs of an inference request and their parameters (KServe V2, gRPC; Triton's classification extension).
 */
import type { RequestedOutputMessage } from "@nereid/wire";
import { invalidArgument } from "../../../core/server-error.ts";
import type { OutputTarget, RequestMemory } from "../../request-memory.ts";
import { readRegionPart } from "./region-part.ts";

/** How an output is wanted, if not as it is. */
export type GrpcOutputForm = { readonly numClasses: number } | { readonly target: OutputTarget };

const NO_NAMES: readonly string[] = [];
const NO_FORMS: ReadonlyMap<string, GrpcOutputForm> = new Map();

export function outputNames(outputs: readonly RequestedOutputMessage[]): readonly string[] {
  return outputs.length === 0 ? NO_NAMES : outputs.map((output) => output.name);
}

/** By output name. @throws ServerError for parameters that an output cannot have */
export function readForms(
  outputs: readonly RequestedOutputMessage[],
  memory: RequestMemory,
): ReadonlyMap<string, GrpcOutputForm> {
  let forms: Map<string, GrpcOutputForm> | undefined;
  for (const output of outputs) {
    if (output.parameters.size === 0) continue;
    const form = readForm(output, memory);
    if (form === undefined) continue;
    forms ??= new Map();
    forms.set(output.name, form);
  }
  return forms ?? NO_FORMS;
}

function readForm(output: RequestedOutputMessage, memory: RequestMemory): GrpcOutputForm | undefined {
  const part = readRegionPart(output);
  const numClasses = readClassification(output);
  if (part === undefined) return numClasses === undefined ? undefined : { numClasses };
  if (numClasses === undefined) return { target: memory.target(part) };
  throw invalidArgument("output can't set both 'shared_memory_region' and 'classification'");
}

function readClassification(output: RequestedOutputMessage): number | undefined {
  const parameter = output.parameters.get("classification");
  if (parameter === undefined) return undefined;
  if (parameter.kind !== "int64") {
    throw invalidArgument("invalid value type for 'classification' parameter, expected int64_param");
  }
  if (parameter.value <= 0) throw invalidArgument("invalid value for 'classification' parameter, expected >= 0");
  return Number(parameter.value);
}
