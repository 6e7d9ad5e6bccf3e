/** TypeScript types of a model's tensors, generated from its configuration. Touches no file. */
import type { ModelConfig, ModelInput, ModelOutput } from "@nereid/server/core/model-config";
import { datatypeOf } from "@nereid/server/core/model-signature";

/** File name in the model's folder. */
export const TYPES_FILE = "model-types.d.ts";

/** Ends the part that is the same for all models. */
const API_MODEL = /\n\/\*\*[^\n]*\*\/\nexport type Model = [\s\S]*$/;

/** `api`: text of the shared types; `others`: the models that this one can call. */
export function modelTypes(config: ModelConfig, api: string, others: readonly ModelConfig[]): string {
  const batch = config.max_batch_size > 0 ? ["-1"] : [];
  const inputs = [...config.input.map((input) => inputLine(input, batch)), ...sequenceInputs(config, batch)];
  const outputs = [...config.output.map((output) => outputLine(output, batch)), ...sequenceOutputs(config, batch)];
  return [
    `// Written by "nereid types" from config.pbtxt: run it again when that changes.`,
    api.replace(API_MODEL, "").trimEnd(),
    "",
    `/** Input tensors of a request to '${config.name}'. */`,
    `export interface Inputs {\n${inputs.join("\n")}\n}`,
    "",
    "/** Output tensors of a response. */",
    `export interface Outputs {\n${outputs.join("\n")}\n}`,
    "",
    "/** The models of its repository. */",
    `export interface Repository extends Models {\n${others.flatMap(handleLines).join("\n")}\n}`,
    "",
    "/** `S`: what a sequence keeps. */",
    "export type Model<S = Record<string, unknown>> = BaseModel<Inputs, Outputs, S, Repository>;",
    "",
  ].join("\n");
}

/** A member of the repository type; empty for a model whose tensors only its own file declares. */
function handleLines({ name, input, output }: ModelConfig): string[] {
  if (input.length === 0 || output.length === 0) return [];
  const takes = input.map(
    (each) => `readonly ${keyOf(each.name)}${each.optional ? "?" : ""}: TensorValue<"${datatypeOf(each.data_type)}">`,
  );
  const gives = output.map((each) => `readonly ${keyOf(each.name)}: Tensor<"${datatypeOf(each.data_type)}">`);
  const [inputs, outputs] = [takes, gives].map((list) => `{\n      ${list.join(";\n      ")};\n    }`);
  return [`  readonly ${keyOf(name)}: ModelHandle<\n    ${inputs},\n    ${outputs}\n  >;`];
}

function keyOf(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
}

function inputLine({ name, data_type, dims, reshape, optional }: ModelInput, batch: readonly string[]): string {
  return member(name, data_type, reshape?.shape ?? dims, batch, "Tensor", optional);
}

function outputLine({ name, data_type, dims, reshape }: ModelOutput, batch: readonly string[]): string {
  return member(name, data_type, reshape?.shape ?? dims, batch, "TensorValue", false);
}

/** Controls and states are inputs that no client sends. */
function sequenceInputs({ sequence_batching }: ModelConfig, batch: readonly string[]): string[] {
  const controls = (sequence_batching?.control_input ?? []).map(
    ({ name }) => `  /** Set by the server. */\n  readonly ${keyOf(name)}: Tensor;`,
  );
  const states = (sequence_batching?.state ?? []).map(({ input_name, data_type, dims }) =>
    member(input_name, data_type, dims, batch, "Tensor", false),
  );
  return [...controls, ...states];
}

function sequenceOutputs({ sequence_batching }: ModelConfig, batch: readonly string[]): string[] {
  return (sequence_batching?.state ?? []).map(({ output_name, data_type, dims }) =>
    member(output_name, data_type, dims, batch, "TensorValue", false),
  );
}

function member(
  name: string,
  dataType: ModelInput["data_type"],
  dims: readonly number[],
  batch: readonly string[],
  type: "Tensor" | "TensorValue",
  isOptional: boolean,
): string {
  const shape = [...batch, ...dims].join(", ");
  return `  /** Shape [${shape}]. */\n  readonly ${keyOf(name)}${isOptional ? "?" : ""}: ${type}<"${datatypeOf(dataType)}">;`;
}
