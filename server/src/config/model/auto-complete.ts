/**
 * Completes a configuration from the model's own description (Triton documentation, "Model Configuration",
 * Auto-Generated). Neither normalises nor validates the rest.
 */
import type { ModelConfig, ModelInput, ModelOutput } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";
import { defaultMessage } from "./default-messages.ts";
import type { DescribedModel, TensorDescription } from "./model-description.ts";

/** `defaultMaxBatchSize`: for a batching model without max_batch_size. */
export function autoComplete(config: ModelConfig, model: DescribedModel, defaultMaxBatchSize: number): ModelConfig {
  // A configuration with inputs and outputs counts as complete: an explicit 0 then means 0.
  if (model.addsTensors !== true && config.input.length > 0 && config.output.length > 0) return config;
  const maxBatchSize = completedBatchSize(config, model, defaultMaxBatchSize);
  const strip = model.canBatch && maxBatchSize > 0;
  return {
    ...config,
    max_batch_size: maxBatchSize,
    input: completedTensors(config.input, model.inputs, model, (tensor) => inputOf(tensor, strip, maxBatchSize)),
    output: completedTensors(config.output, model.outputs, model, (tensor) => outputOf(tensor, strip, maxBatchSize)),
    dynamic_batching: wantsDynamicBatching(config, model, maxBatchSize)
      ? defaultMessage("ModelDynamicBatching")
      : config.dynamic_batching,
    model_transaction_policy:
      model.decoupled === undefined ? config.model_transaction_policy : { decoupled: model.decoupled },
  };
}

function completedBatchSize(config: ModelConfig, model: DescribedModel, defaultMaxBatchSize: number): number {
  if (model.maxBatchSize !== undefined) return model.maxBatchSize;
  if (model.canBatch) return config.max_batch_size === 0 ? Math.max(defaultMaxBatchSize, 0) : config.max_batch_size;
  if (config.max_batch_size !== 0 && model.addsTensors !== true) {
    throw invalidArgument(
      `autofill failed for model '${config.name}': model does not support batching while non-zero max_batch_size is specified`,
    );
  }
  return config.max_batch_size;
}

function wantsDynamicBatching(config: ModelConfig, model: DescribedModel, maxBatchSize: number): boolean {
  if (config.dynamic_batching ?? config.sequence_batching ?? config.ensemble_scheduling) return false;
  return model.dynamicBatching ?? (model.addsTensors !== true && model.canBatch && maxBatchSize > 1);
}

type ConfigTensor = Pick<ModelOutput, "name" | "data_type" | "dims" | "reshape">;

function completedTensors<T extends ConfigTensor>(
  written: readonly T[],
  described: readonly TensorDescription[],
  model: DescribedModel,
  create: (tensor: TensorDescription) => T,
): readonly T[] {
  if (written.length === 0) return described.map(create);
  if (model.addsTensors !== true) return written;
  const created = new Map(described.map((tensor) => [tensor.name, create(tensor)]));
  const filled = written.map((tensor) => filledTensor(tensor, created.get(tensor.name)));
  for (const { name } of written) created.delete(name);
  return [...filled, ...created.values()];
}

/** A tensor that the configuration names without its type or its dimensions gets them from the model. */
function filledTensor<T extends ConfigTensor>(written: T, own: T | undefined): T {
  if (own === undefined) return written;
  const data_type = written.data_type === "TYPE_INVALID" ? own.data_type : written.data_type;
  if (written.dims.length > 0) return { ...written, data_type };
  return { ...written, data_type, dims: own.dims, reshape: written.reshape ?? own.reshape };
}

function inputOf(tensor: TensorDescription, strip: boolean, maxBatchSize: number): ModelInput {
  const base = defaultMessage("ModelInput");
  return { ...base, ...shapeOf(tensor, strip, maxBatchSize), optional: tensor.optional ?? false };
}

function outputOf(tensor: TensorDescription, strip: boolean, maxBatchSize: number): ModelOutput {
  return { ...defaultMessage("ModelOutput"), ...shapeOf(tensor, strip, maxBatchSize) };
}

/** Clients see a tensor without dimensions as one element; a batching model gets it reshaped. */
function shapeOf(tensor: TensorDescription, strip: boolean, maxBatchSize: number) {
  const dims = strip ? tensor.dims.slice(1) : [...tensor.dims];
  const common = { name: tensor.name, data_type: tensor.dataType };
  if (dims.length > 0) return { ...common, dims };
  return maxBatchSize > 0 ? { ...common, dims: [1], reshape: { shape: [] } } : { ...common, dims: [1] };
}
