/** Rules of inputs, outputs and `batch_input`/`batch_output` tensors. */
import type { BatchInput, BatchOutput, ModelConfig, ModelInput, ModelOutput } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";

const TENSORRT_PLATFORM = "tensorrt_plan";

/** @throws ServerError("invalid_argument") naming the tensor and the model */
export function validateModelIo(config: ModelConfig): void {
  const fail = (message: string): never => {
    throw invalidArgument(`${message} for ${config.name}`);
  };
  for (const input of config.input) {
    validateTensor(input, "input", config, fail);
    if (input.format !== "FORMAT_NONE" && input.dims.length !== 3) fail("model input NHWC/NCHW require 3 dims");
    validateTensorRtFlags(input, "input", config, fail);
  }
  for (const output of config.output) {
    validateTensor(output, "output", config, fail);
    validateTensorRtFlags(output, "output", config, fail);
  }
  const inputs = new Set(config.input.map(({ name }) => name));
  const outputs = new Set(config.output.map(({ name }) => name));
  for (const batchInput of config.batch_input) validateBatchInput(batchInput, inputs, fail);
  for (const batchOutput of config.batch_output) validateBatchOutput(batchOutput, inputs, outputs, fail);
}

type Fail = (message: string) => never;
type Direction = "input" | "output";

function validateTensor(tensor: ModelInput | ModelOutput, direction: Direction, config: ModelConfig, fail: Fail): void {
  if (tensor.name === "") fail(`model ${direction} must specify 'name'`);
  const subject = `model ${direction} '${tensor.name}'`;
  if (tensor.data_type === "TYPE_INVALID") fail(`${subject} must specify 'data_type'`);
  if (tensor.dims.length === 0) fail(`${subject} must specify 'dims'`);
  const shape = tensor.reshape?.shape;
  if (shape?.length === 0 && config.max_batch_size === 0) {
    fail(`${subject} cannot have empty reshape for non-batching model as scalar tensors are not supported`);
  }
  const rule = "must be integer >= 1, or -1 to indicate a variable-size dimension";
  if (!tensor.dims.every(isDimension)) fail(`${subject} dimension ${rule}`);
  if (shape === undefined) return;
  if (!shape.every(isDimension)) fail(`${subject} reshape dimensions ${rule}`);
  validateReshape(subject, tensor.dims, shape, fail);
}

function isDimension(dim: number): boolean {
  return dim >= 1 || dim === -1;
}

/** The parts between dynamic dimensions must have equal sizes on both sides: [2, 4, -1, 6] fits [8, -1, 1, 6]. */
function validateReshape(subject: string, dims: readonly number[], shape: readonly number[], fail: Fail): void {
  const from = pieces(dims);
  const to = pieces(shape);
  const isVariable = from.length > 1;
  if (isVariable !== to.length > 1) fail(`${subject} has different size for dims and reshape`);
  if (from.length !== to.length) {
    fail(`${subject} has different number of variable-size dimensions for dims and reshape`);
  }
  if (!from.every((size, index) => size === to[index])) fail(`${subject} has different size for dims and reshape`);
}

/** Element counts between dynamic dimensions; an empty shape has one element. */
function pieces(dims: readonly number[]): number[] {
  const sizes = [1];
  for (const dim of dims) {
    if (dim === -1) sizes.push(1);
    else sizes.push((sizes.pop() ?? 1) * dim);
  }
  return sizes;
}

function validateTensorRtFlags(
  tensor: ModelInput | ModelOutput,
  direction: Direction,
  config: ModelConfig,
  fail: Fail,
): void {
  if (tensor.is_shape_tensor && config.platform !== TENSORRT_PLATFORM) {
    fail("shape tensors are only supported for TensorRT platform");
  }
  if (!tensor.is_non_linear_format_io) return;
  if (config.platform !== TENSORRT_PLATFORM) {
    fail("Non-linear IO format is only supported for the TensorRT platform");
  }
  if (tensor.dims.length !== 3) fail(`Non-linear IO format ${direction} requires 3 dims`);
}

function validateBatchInput(input: BatchInput, inputs: ReadonlySet<string>, fail: Fail): void {
  if (input.source_input.length !== 1) {
    fail(`batch input kind '${input.kind}' expects 1 source input, got ${input.source_input.length}`);
  }
  if (input.data_type !== "TYPE_INT32" && input.data_type !== "TYPE_FP32") {
    fail("batch input data type must be TYPE_INT32 or TYPE_FP32");
  }
  validateSources(input.source_input, inputs, fail);
}

function validateBatchOutput(
  output: BatchOutput,
  inputs: ReadonlySet<string>,
  outputs: ReadonlySet<string>,
  fail: Fail,
): void {
  if (output.source_input.length !== 1) {
    fail(`batch output kind '${output.kind}' expects 1 source input, got ${output.source_input.length}`);
  }
  validateSources(output.source_input, inputs, fail);
  const seen = new Set<string>();
  for (const target of output.target_name) {
    if (!outputs.has(target)) fail(`unknown target output name '${target}'`);
    if (seen.has(target)) fail(`target output name '${target}' can only be specified once`);
    seen.add(target);
  }
}

function validateSources(names: readonly string[], inputs: ReadonlySet<string>, fail: Fail): void {
  for (const name of names) if (!inputs.has(name)) fail(`unknown source input name '${name}'`);
}
