/**
 * Whether a configuration fits what an ONNX model declares: names, types, dimensions and the tensors that the sequence
 * batcher adds. Pure over both; knows no session.
 */
import type { ConfigDataType, ModelConfig, ModelInput, ModelSequenceBatchingControl } from "../core/model-config.ts";
import { ServerError } from "../core/server-error.ts";
import { invalid } from "./invalid.ts";

/** As the model declares it: the full shape, batch dimension included; -1 = free; no dimensions = a scalar. */
export interface OnnxTensor {
  readonly name: string;
  readonly dataType: ConfigDataType;
  readonly dims: readonly number[];
}

export interface OnnxSignature {
  readonly inputs: readonly OnnxTensor[];
  readonly outputs: readonly OnnxTensor[];
  /** Initialisers that a request may override: legal, never required. */
  readonly overridableInitializers?: readonly OnnxTensor[];
}

/** @throws ServerError with the reason the load fails */
export function validateOnnxSignature(config: ModelConfig, model: OnnxSignature): void {
  const controls = controlsOf(config);
  for (const control of controls) validateControl(config, control, model.inputs);
  const states = config.sequence_batching?.state ?? [];
  const numRequired = config.input.filter(({ optional }) => !optional).length;
  const numExpected = numRequired + config.batch_input.length + controls.length + states.length;
  if (model.inputs.length !== numExpected) {
    throw invalid(
      `unable to load model '${config.name}', configuration expects ${numExpected} inputs, model provides ${model.inputs.length}`,
    );
  }
  const inputs = [...model.inputs, ...(model.overridableInitializers ?? [])];
  for (const input of config.input) validateInput(config, input, inputs);
  validateOutputs(config, model.outputs);
  for (const state of states) {
    expectType(config, state.data_type, tensorNamed(state.input_name, inputs, "input"), "input state");
    expectType(config, state.data_type, tensorNamed(state.output_name, model.outputs, "output"), "output state");
  }
}

interface Control {
  readonly name: string;
  readonly dataType: ConfigDataType;
}

function controlsOf(config: ModelConfig): Control[] {
  return (config.sequence_batching?.control_input ?? []).flatMap(({ name, control }) =>
    control.map((one) => ({ name, dataType: controlType(one) })),
  );
}

function controlType(control: ModelSequenceBatchingControl): ConfigDataType {
  if (control.kind === "CONTROL_SEQUENCE_CORRID") return control.data_type;
  if (control.int32_false_true.length > 0) return "TYPE_INT32";
  return control.fp32_false_true.length > 0 ? "TYPE_FP32" : "TYPE_BOOL";
}

function validateControl(config: ModelConfig, control: Control, inputs: readonly OnnxTensor[]): void {
  const tensor = inputs.find(({ name }) => name === control.name);
  if (tensor === undefined) {
    throw new ServerError(
      "internal",
      `configuration specified sequence control '${control.name}', but model does not provide that input`,
    );
  }
  const subject = `unable to load model '${config.name}', sequence control '${control.name}'`;
  const dims = config.max_batch_size > 0 ? tensor.dims.slice(1) : tensor.dims;
  if (dims.length !== 1 || dims[0] !== 1) {
    throw invalid(`${subject} in model has dims ${shapeText(dims)} but dims [1] is expected`);
  }
  if (tensor.dataType !== control.dataType) {
    throw invalid(
      `${subject}, the model expects data-type ${onnxTypeName(tensor.dataType)} but the model configuration specifies data-type ${control.dataType}`,
    );
  }
}

function validateInput(config: ModelConfig, input: ModelInput, inputs: readonly OnnxTensor[]): void {
  const subject = `unable to load model '${config.name}'`;
  if (input.optional && config.max_batch_size !== 0) {
    throw invalid(`${subject}, optional input '${input.name}' is not supported for models that support batching`);
  }
  const tensor = tensorNamed(input.name, inputs, "input");
  expectType(config, input.data_type, tensor, "input");
  if (input.optional && input.allow_ragged_batch) {
    throw invalid(
      `${subject}, configuration expects model provides input with shape [-1] for ragged input '${input.name}', which is not supported for optional input`,
    );
  }
  if (!input.allow_ragged_batch) expectDims(config, input.reshape?.shape ?? input.dims, tensor, false);
  else if (tensor.dims.length !== 1 || tensor.dims[0] !== -1) {
    throw invalid(
      `${subject}, configuration expects model provides input with shape [-1]  for ragged input '${input.name}', model provides ${shapeText(tensor.dims)}`,
    );
  }
}

function validateOutputs(config: ModelConfig, outputs: readonly OnnxTensor[]): void {
  const split = new Set(config.batch_output.flatMap(({ target_name }) => target_name));
  for (const output of config.output) {
    const tensor = tensorNamed(output.name, outputs, "output");
    expectType(config, output.data_type, tensor, "output");
    // The server splits these itself: what the model makes has another shape.
    if (!split.has(output.name)) expectDims(config, output.reshape?.shape ?? output.dims, tensor, true);
  }
}

function tensorNamed(name: string, tensors: readonly OnnxTensor[], direction: "input" | "output"): OnnxTensor {
  const tensor = tensors.find((one) => one.name === name);
  if (tensor !== undefined) return tensor;
  const allowed = tensors.map((one) => one.name).sort();
  throw invalid(`unexpected inference ${direction} '${name}', allowed ${direction}s are: ${allowed.join(", ")}`);
}

function expectType(config: ModelConfig, type: ConfigDataType, tensor: OnnxTensor, what: string): void {
  if (type === tensor.dataType) return;
  throw invalid(
    `unable to load model '${config.name}', configuration expects datatype ${type} for ${what} '${tensor.name}', model provides ${tensor.dataType}`,
  );
}

/** `isExact`: a free dimension of the model must be free in the configuration too. */
function expectDims(config: ModelConfig, dims: readonly number[], tensor: OnnxTensor, isExact: boolean): void {
  if (tensor.dims.length === 0) {
    expectScalar(config, dims, tensor);
    return;
  }
  const subject = `model '${config.name}', tensor '${tensor.name}'`;
  const isBatching = config.max_batch_size > 0;
  if (isBatching && tensor.dims[0] !== -1) {
    throw invalid(
      `${subject}: for the model to support batching the shape should have at least 1 dimension and the first dimension must be -1; but shape expected by the model is ${shapeText(tensor.dims)}`,
    );
  }
  const wanted = isBatching ? [-1, ...dims] : dims;
  const fits = (dim: number, index: number) =>
    dim === wanted[index] || (!isExact && (dim === -1 || wanted[index] === -1));
  if (wanted.length === tensor.dims.length && tensor.dims.every(fits)) return;
  const complete = isBatching
    ? `an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete shape ${shapeText(wanted)}`
    : `shape ${shapeText(wanted)}`;
  throw invalid(
    `${subject}: the model expects ${tensor.dims.length} dimensions (shape ${shapeText(tensor.dims)}) but the model configuration specifies ${wanted.length} dimensions (${complete})`,
  );
}

function expectScalar(config: ModelConfig, dims: readonly number[], tensor: OnnxTensor): void {
  if (dims.every((dim) => dim === 1)) return;
  throw invalid(
    `unable to load model '${config.name}', scalar tensor '${tensor.name}', should only provide 1 in the model configuration when the model doesn't support batching. Model configuration provided: ${shapeText(dims)}.`,
  );
}

function shapeText(dims: readonly number[]): string {
  return `[${dims.join(",")}]`;
}

const ONNX_TYPE_NAMES: ReadonlyMap<string, string> = new Map([
  ["TYPE_FP16", "FLOAT16"],
  ["TYPE_FP32", "FLOAT"],
  ["TYPE_FP64", "DOUBLE"],
  ["TYPE_BF16", "BFLOAT16"],
]);

function onnxTypeName(type: ConfigDataType): string {
  return ONNX_TYPE_NAMES.get(type) ?? type.slice("TYPE_".length);
}
