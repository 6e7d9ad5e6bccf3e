/** Which tensors of a model carry text, and why a model is or is not one of text in and text out. Pure. */
import type { ServedModel, TensorMetadata } from "../core/model-server.ts";
import {
  ACCUMULATING_INPUT,
  INPUT_NAMES,
  type InputRole,
  JSON_INPUTS,
  OUTPUT_NAMES,
  type OutputRole,
  SAMPLING_ROLES,
  TEXT_ROLES,
} from "./tensor-names.ts";

type Tensors = Pick<ServedModel, "inputs" | "outputs" | "config">;

export interface TextSignature {
  /** `tokens`: ids in, ids out, with the tokenizer of this server. `text`: the model has its own. */
  readonly kind: "tokens" | "text";
  readonly inputs: ReadonlyMap<InputRole, TensorMetadata>;
  readonly outputs: ReadonlyMap<OutputRole, TensorMetadata>;
  /** Inputs that take JSON of the request. */
  readonly jsonInputs: readonly TensorMetadata[];
  /** The model takes at least one sampling option; one that takes none does not sample. */
  readonly samples: boolean;
  readonly isBatching: boolean;
  /** Responses of a stream hold the whole text so far. */
  readonly accumulates: boolean;
  /** Counts of output tokens are those since the response before, as vLLM's are. */
  readonly countsNewTokens: boolean;
}

/** The signature, or the reason why the model is none of text. */
export function textSignature(model: Tensors): TextSignature | { readonly reason: string } {
  const inputs = rolesOf(INPUT_NAMES, model.inputs);
  const outputs = rolesOf(OUTPUT_NAMES, model.outputs);
  const isTokens = inputs.has("tokens") && inputs.has("maxTokens") && outputs.has("tokens");
  if (!isTokens) fillText(model, inputs, outputs);
  const jsonInputs = JSON_INPUTS.flatMap((name) => bytesTensor(model.inputs.get(name)));
  const reason = isTokens ? undefined : reasonOf(model, inputs, outputs, jsonInputs);
  if (reason !== undefined) return { reason };
  return {
    kind: isTokens ? "tokens" : "text",
    inputs,
    outputs,
    jsonInputs,
    samples: inputs.has("samplingJson") || SAMPLING_ROLES.some((role) => inputs.has(role)),
    isBatching: model.config.max_batch_size > 0,
    accumulates: model.inputs.has(ACCUMULATING_INPUT),
    countsNewTokens: inputs.has("samplingJson"),
  };
}

function rolesOf<Role extends string>(
  names: Readonly<Record<Role, readonly string[]>>,
  tensors: ReadonlyMap<string, TensorMetadata>,
): Map<Role, TensorMetadata> {
  const found = new Map<Role, TensorMetadata>();
  let role: Role;
  for (role in names) {
    const candidates = names[role].flatMap((name) => tensors.get(name) ?? []);
    const tensor = TEXT_ROLES.has(role) ? candidates.find(({ datatype }) => datatype === "BYTES") : candidates[0];
    if (tensor !== undefined) found.set(role, tensor);
  }
  return found;
}

/** Text is BYTES: by a usual name, else the only tensor that there is. */
function fillText(
  model: Tensors,
  inputs: Map<InputRole, TensorMetadata>,
  outputs: Map<OutputRole, TensorMetadata>,
): void {
  const isRequired = (name: string): boolean =>
    model.config.input.find((input) => input.name === name)?.optional !== true;
  const input = textTensor(INPUT_NAMES.text, model.inputs, isRequired);
  const output = textTensor(OUTPUT_NAMES.text, model.outputs, () => true);
  if (inputs.get("image")?.datatype !== "BYTES") inputs.delete("image");
  inputs.delete("text");
  outputs.delete("text");
  if (input !== undefined) inputs.set("text", input);
  if (output !== undefined) outputs.set("text", output);
}

function textTensor(
  names: readonly string[],
  tensors: ReadonlyMap<string, TensorMetadata>,
  isCandidate: (name: string) => boolean,
): TensorMetadata | undefined {
  const named = names.map((name) => tensors.get(name)).find((tensor) => tensor?.datatype === "BYTES");
  if (named !== undefined) return named;
  const [only, ...others] = [...tensors.values()].filter(({ name }) => isCandidate(name));
  return others.length === 0 && only?.datatype === "BYTES" ? only : undefined;
}

function reasonOf(
  model: Tensors,
  inputs: ReadonlyMap<InputRole, TensorMetadata>,
  outputs: ReadonlyMap<OutputRole, TensorMetadata>,
  jsonInputs: readonly TensorMetadata[],
): string | undefined {
  const takesMessages = jsonInputs.some(({ name }) => name === "messages");
  const prompt = inputs.get("text");
  if (prompt === undefined && !takesMessages) {
    return "no input of TYPE_STRING that a prompt could go to: expected 'text_input', or one such input";
  }
  if (!outputs.has("text")) {
    return "no output of TYPE_STRING with the text: expected 'text_output', or one such output";
  }
  const known = new Set([...inputs.values(), ...jsonInputs].map(({ name }) => name));
  const unknown = model.config.input.filter(({ name, optional }) => !optional && !known.has(name));
  if (unknown.length === 0) return undefined;
  const names = unknown.map(({ name }) => `'${name}'`).join(", ");
  return `required inputs that no request field fills: ${names}`;
}

function bytesTensor(tensor: TensorMetadata | undefined): TensorMetadata[] {
  return tensor?.datatype === "BYTES" ? [tensor] : [];
}
