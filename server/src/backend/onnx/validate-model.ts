/** Compares a configuration with the model it is for. Pure; the texts are Triton's. */
import type { ModelConfig, ModelInput, ModelOutput, SequenceControlKind } from "../../core/model-config.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { ModelInfo, ValueInfo } from "../../native/onnxruntime/info.ts";
import { configTypeOf, expectTensors, shownTypeOf } from "./model-values.ts";

type Values = ReadonlyMap<string, ValueInfo>;

/** @throws ServerError with the first difference */
export function validateModel(config: ModelConfig, info: ModelInfo): void {
  expectTensors(info);
  const inputs = byName(info.inputs);
  const numControls = validateControls(config, inputs);
  const numStates = config.sequence_batching?.state.length ?? 0;
  const numRequired = config.input.filter(({ optional }) => !optional).length;
  const expected = numRequired + numControls + numStates + validateBatchInputs(config, inputs);
  if (info.inputs.length !== expected) {
    throw unable(config, `configuration expects ${expected} inputs, model provides ${info.inputs.length}`);
  }
  const allowed = byName([...info.inputs, ...info.overridableInitializers]);
  for (const input of config.input) validateInput(config, input, allowed);
  const outputs = byName(info.outputs);
  for (const output of config.output) validateOutput(config, output, outputs);
  validateStates(config, outputs);
}

/** Inputs that the server computes for each batch: the model must have them. */
function validateBatchInputs(config: ModelConfig, inputs: Values): number {
  let count = 0;
  for (const { target_name, data_type } of config.batch_input) {
    for (const name of target_name) {
      const value = inputs.get(name);
      if (value === undefined) throw notAllowed("input", name, inputs);
      expectType(config, `batch input '${name}'`, data_type, value);
      count++;
    }
  }
  return count;
}

/** Checks the control tensors and gives their number. */
function validateControls(config: ModelConfig, inputs: Values): number {
  let count = 0;
  for (const { name, control } of config.sequence_batching?.control_input ?? []) {
    for (const { kind, data_type, fp32_false_true, bool_false_true } of control) {
      const type = controlType(kind, data_type, fp32_false_true.length > 0, bool_false_true.length > 0);
      validateControl(config, name, type, inputs);
      count++;
    }
  }
  return count;
}

function controlType(kind: SequenceControlKind, corridType: string, isFloat: boolean, isBoolean: boolean): string {
  if (kind === "CONTROL_SEQUENCE_CORRID") return corridType;
  if (isFloat) return "TYPE_FP32";
  return isBoolean ? "TYPE_BOOL" : "TYPE_INT32";
}

function validateControl(config: ModelConfig, name: string, type: string, inputs: Values): void {
  const value = inputs.get(name);
  if (value === undefined) {
    const text = `configuration specified sequence control '${name}', but model does not provide that input`;
    throw new ServerError("internal", text);
  }
  const dims = value.dims.slice(config.max_batch_size > 0 ? 1 : 0);
  if (dims.length !== 1 || dims[0] !== 1) {
    throw unable(config, `sequence control '${name}' in model has dims ${shown(dims)} but dims [1] is expected`);
  }
  if (configTypeOf(value) !== type) {
    throw unable(
      config,
      `sequence control '${name}', the model expects data-type ${value.elementType.name} but the model configuration specifies data-type ${type}`,
    );
  }
}

function validateInput(config: ModelConfig, input: ModelInput, allowed: Values): void {
  if (input.optional && config.max_batch_size !== 0) {
    throw unable(config, `optional input '${input.name}' is not supported for models that support batching`);
  }
  const value = allowed.get(input.name);
  if (value === undefined) throw notAllowed("input", input.name, allowed);
  expectType(config, `input '${input.name}'`, input.data_type, value);
  if (input.allow_ragged_batch) {
    expectFlat(config, `ragged input '${input.name}'`, value.dims);
    return;
  }
  expectDims(config, input.name, value.dims, input.reshape?.shape ?? input.dims, false);
}

function validateOutput(config: ModelConfig, output: ModelOutput, outputs: Values): void {
  const value = outputs.get(output.name);
  if (value === undefined) throw notAllowed("output", output.name, outputs);
  expectType(config, `output '${output.name}'`, output.data_type, value);
  if (config.batch_output.some(({ target_name }) => target_name.includes(output.name))) return; // cut by the requests' shapes
  expectDims(config, output.name, value.dims, output.reshape?.shape ?? output.dims, true);
}

function validateStates(config: ModelConfig, outputs: Values): void {
  for (const { output_name, data_type } of config.sequence_batching?.state ?? []) {
    const value = outputs.get(output_name);
    if (value === undefined) throw notAllowed("output", output_name, outputs);
    expectType(config, `output state '${output_name}'`, data_type, value);
  }
}

function expectType(config: ModelConfig, what: string, type: string, value: ValueInfo): void {
  if (type === "TYPE_INVALID") {
    throw new ServerError("internal", `unsupported datatype ${type} for ${what} for model '${config.name}'`);
  }
  if (configTypeOf(value) === type) return;
  throw unable(config, `configuration expects datatype ${type} for ${what}, model provides ${shownTypeOf(value)}`);
}

/** Ragged elements have one dimension, whose size is that of the batch. */
function expectFlat(config: ModelConfig, what: string, dims: readonly number[]): void {
  if (dims.length === 1 && dims[0] === -1) return;
  throw unable(config, `${what}: the model must have shape [-1] for it, got ${shown(dims)}`);
}

/** An input's configuration may be stricter than the model; an output's must say what the model says. */
function expectDims(
  config: ModelConfig,
  name: string,
  model: readonly number[],
  dims: readonly number[],
  exactly: boolean,
): void {
  if (model.length === 0) {
    expectScalarDims(config, name, dims);
    return;
  }
  const batches = config.max_batch_size > 0;
  if (batches && model[0] !== -1) {
    throw invalidArgument(
      `model '${config.name}', tensor '${name}': for the model to support batching the shape should have at least 1 dimension and the first dimension must be -1; but shape expected by the model is ${shown(model)}`,
    );
  }
  const full = batches ? [-1, ...dims] : dims;
  const fits =
    model.length === full.length && model.every((dim, axis) => dim === full[axis] || (!exactly && dim === -1));
  if (fits) return;
  const detail = batches
    ? `an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete shape ${shown(full)}`
    : `shape ${shown(full)}`;
  throw invalidArgument(
    `model '${config.name}', tensor '${name}': the model expects ${model.length} dimensions (shape ${shown(model)}) but the model configuration specifies ${full.length} dimensions (${detail})`,
  );
}

function expectScalarDims(config: ModelConfig, name: string, dims: readonly number[]): void {
  if (dims.every((dim) => dim === 1)) return;
  throw unable(
    config,
    `scalar tensor '${name}', should only provide 1 in the model configuration when the model doesn't support batching. Model configuration provided: ${shown(dims)}.`,
  );
}

function notAllowed(what: "input" | "output", name: string, allowed: Values): ServerError {
  const names = [...allowed.keys()].sort().join(", ");
  return invalidArgument(`unexpected inference ${what} '${name}', allowed ${what}s are: ${names}`);
}

function unable(config: ModelConfig, problem: string): ServerError {
  return invalidArgument(`unable to load model '${config.name}', ${problem}`);
}

function byName(values: readonly ValueInfo[]): Values {
  return new Map(values.map((value) => [value.name, value]));
}

function shown(dims: readonly number[]): string {
  return `[${dims.join(",")}]`;
}
