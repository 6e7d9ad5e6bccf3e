/**
 * Checks an ensemble against the models that it calls: versions, datatypes, shapes and batch sizes. Source: Triton
 * documentation, "Ensemble Models"; the order and the words of the checks are those of `CheckNode` and
 * `ValidateEnsembleConfig` of Triton's core. Pure.
 */
import type { ModelConfig, ModelEnsemblingStep } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";
import { planEnsemble } from "../../scheduler/ensemble/ensemble-plan.ts";

interface Io {
  readonly name: string;
  readonly data_type: string;
  readonly dims: readonly number[];
}

/** A tensor of the ensemble, as the first model or the ensemble itself describes it. */
interface StepTensor {
  readonly data_type: string;
  /** Without the batch dimension. */
  readonly dims: readonly number[];
  /** With it. */
  readonly fullDims: readonly number[];
  /** For messages. */
  readonly model: string;
}

/** A loaded version of a composing model. */
export interface ComposingVersion {
  readonly version: string;
  readonly config: ModelConfig;
}

/** `loadedOf`: ascending, none when the model is not loaded. @throws ServerError invalid_argument naming what does not fit */
export function checkEnsemble(config: ModelConfig, loadedOf: (step: number) => readonly ComposingVersion[]): void {
  const steps = config.ensemble_scheduling?.step ?? [];
  const models = steps.map((step, index) => loadedModel(config, step, loadedOf(index)));
  const tensors = new Map<string, StepTensor>();
  const batches = config.max_batch_size > 0;
  for (const io of [...config.input, ...config.output]) {
    tensors.set(io.name, tensorOf(config.name, batches, io, io.reshape?.shape ?? io.dims));
  }
  for (const [index, step] of steps.entries()) {
    const model = models[index];
    if (model === undefined) throw new Error(`step ${index} has no model`);
    checkBatchSize(config, model);
    checkStep(config, step, model, tensors);
  }
  planEnsemble(config, (_, step) => models[step]?.model_transaction_policy?.decoupled ?? false);
}

function loadedModel(
  config: ModelConfig,
  { model_name: name, model_version: version }: ModelEnsemblingStep,
  loaded: readonly ComposingVersion[],
): ModelConfig {
  const latest = loaded.at(-1);
  if (latest === undefined) {
    throw invalidArgument(`ensemble '${config.name}' depends on '${name}' which has no loaded version`);
  }
  // Steps without a version take the latest; Triton asks for -1 then.
  if (version > 0 && loaded.every((one) => one.version !== String(version))) {
    const text = `ensemble '${config.name}' depends on '${name}' whose required version ${version} is not loaded.`;
    throw invalidArgument(text);
  }
  return latest.config;
}

function checkBatchSize(config: ModelConfig, model: ModelConfig): void {
  if (model.max_batch_size === 0 || config.max_batch_size <= model.max_batch_size) return;
  throw invalidArgument(
    `ensemble ${config.name} allows maximum batch size ${config.max_batch_size}, but it contains model ${model.name} which only allows maximum batch size to be ${model.max_batch_size}`,
  );
}

function checkStep(
  { name: ensemble }: ModelConfig,
  step: ModelEnsemblingStep,
  model: ModelConfig,
  tensors: Map<string, StepTensor>,
): void {
  const { input_map: inputs, output_map: outputs } = step;
  expectDeclared(ensemble, inputs, model.input, model.name, "is mapping to non-existing input");
  for (const input of model.input) {
    const tensor = inputs[input.name];
    if (tensor !== undefined && Object.hasOwn(inputs, input.name)) place(ensemble, tensor, input, model, tensors);
    else if (!input.optional) {
      const text = `in ensemble ${ensemble}, input ${input.name} in model ${model.name} is not mapped to any ensemble tensors`;
      throw invalidArgument(text);
    }
  }
  expectDeclared(ensemble, outputs, model.output, model.name, "is mapped from non-existing output");
  for (const [name, tensor] of Object.entries(outputs)) {
    for (const output of model.output) if (output.name === name) place(ensemble, tensor, output, model, tensors);
  }
}

function expectDeclared(
  ensemble: string,
  map: Readonly<Record<string, string>>,
  declared: readonly Io[],
  model: string,
  relation: string,
): void {
  for (const [name, tensor] of Object.entries(map)) {
    if (declared.some((io) => io.name === name)) continue;
    throw invalidArgument(`in ensemble ${ensemble}, ensemble tensor ${tensor} ${relation} ${name} in model ${model}`);
  }
}

/** A composing model is called with its `dims`: it reshapes by itself. */
function place(ensemble: string, tensor: string, io: Io, model: ModelConfig, tensors: Map<string, StepTensor>): void {
  const made = tensorOf(model.name, model.max_batch_size > 0, io, io.dims);
  const known = tensors.get(tensor);
  if (known === undefined) tensors.set(tensor, made);
  else checkMatch(ensemble, tensor, known, made);
}

function tensorOf(model: string, batches: boolean, { data_type }: Io, dims: readonly number[]): StepTensor {
  return { data_type, dims, fullDims: batches ? [-1, ...dims] : dims, model };
}

function checkMatch(ensemble: string, tensor: string, a: StepTensor, b: StepTensor): void {
  const text = `in ensemble ${ensemble}, ensemble tensor ${tensor}: inconsistent`;
  if (a.data_type !== b.data_type) {
    throw invalidArgument(
      `${text} data type: ${a.data_type} is inferred from model ${a.model} while ${b.data_type} is inferred from model ${b.model}`,
    );
  }
  // Full shapes too: a batching model may give to one that does not batch, and the other way round.
  if (fits(a.dims, b.dims) || fits(a.fullDims, b.fullDims)) return;
  throw invalidArgument(
    `${text} shape: [${a.fullDims.join(",")}] is inferred from model ${a.model} while [${b.fullDims.join(",")}] is inferred from model ${b.model}`,
  );
}

function fits(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((dim, i) => dim === -1 || b[i] === -1 || dim === b[i]);
}
