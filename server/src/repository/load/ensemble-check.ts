/**
 * Checks an ensemble against the models that it calls: existence, datatypes, shapes and batch sizes. Source: Triton
 * documentation, "Ensemble Models". Pure.
 */
import type { ModelConfig, ModelEnsemblingStep } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";

type Io = { readonly name: string; readonly data_type: string; readonly dims: readonly number[] };

interface StepTensor {
  readonly io: Io;
  readonly batches: boolean;
  /** For messages. */
  readonly where: string;
}

/** @throws ServerError invalid_argument naming the step and tensor that do not fit */
export function checkEnsemble(
  config: ModelConfig,
  configOf: (model: string, step: number) => ModelConfig | undefined,
): void {
  const tensors = new Map<string, StepTensor>();
  const batches = config.max_batch_size > 0;
  for (const io of [...config.input, ...config.output]) {
    tensors.set(io.name, { io, batches, where: `ensemble '${config.name}'` });
  }
  for (const [index, step] of (config.ensemble_scheduling?.step ?? []).entries()) {
    const model = configOf(step.model_name, index);
    if (model === undefined) {
      throw invalidArgument(`ensemble '${config.name}' depends on '${step.model_name}' which has no loaded version`);
    }
    checkBatchSize(config, model);
    checkStep(config, step, model, tensors);
  }
}

function checkBatchSize(config: ModelConfig, model: ModelConfig): void {
  if (config.max_batch_size === 0 || model.max_batch_size === 0) return;
  if (config.max_batch_size <= model.max_batch_size) return;
  throw invalidArgument(
    `ensemble '${config.name}' allows maximum batch size ${config.max_batch_size}, but it contains model '${model.name}' which only allows maximum batch size to be ${model.max_batch_size}`,
  );
}

function checkStep(
  config: ModelConfig,
  step: ModelEnsemblingStep,
  model: ModelConfig,
  tensors: Map<string, StepTensor>,
): void {
  checkSide(config, step.input_map, model.input, "input", model, tensors);
  checkSide(config, step.output_map, model.output, "output", model, tensors);
  for (const input of model.input) {
    if (input.optional || Object.hasOwn(step.input_map, input.name)) continue;
    throw invalidArgument(`in ensemble '${config.name}', input '${input.name}' of model '${model.name}' is not mapped`);
  }
}

function checkSide(
  config: ModelConfig,
  map: Readonly<Record<string, string>>,
  declared: readonly Io[],
  side: "input" | "output",
  model: ModelConfig,
  tensors: Map<string, StepTensor>,
): void {
  for (const [name, tensor] of Object.entries(map)) {
    const io = declared.find((candidate) => candidate.name === name);
    if (io === undefined) {
      throw invalidArgument(
        `in ensemble '${config.name}', ensemble tensor '${tensor}' is mapping to non-existing ${side} '${name}' in model '${model.name}'`,
      );
    }
    const place = { io, batches: model.max_batch_size > 0, where: `model '${model.name}'` };
    const known = tensors.get(tensor);
    if (known === undefined) tensors.set(tensor, place);
    else checkMatch(config.name, tensor, known, place);
  }
}

function checkMatch(ensemble: string, tensor: string, a: StepTensor, b: StepTensor): void {
  const text = `in ensemble '${ensemble}', ensemble tensor '${tensor}': inconsistent`;
  if (a.io.data_type !== b.io.data_type) {
    throw invalidArgument(
      `${text} data type: ${a.io.data_type} is inferred from ${a.where} while ${b.io.data_type} is inferred from ${b.where}`,
    );
  }
  if (fits(a.io.dims, b.io.dims) || fits(outer(a), outer(b))) return;
  throw invalidArgument(
    `${text} shape: [${a.io.dims.join(",")}] is inferred from ${a.where} while [${b.io.dims.join(",")}] is inferred from ${b.where}`,
  );
}

function outer(place: StepTensor): readonly number[] {
  return place.batches ? [-1, ...place.io.dims] : place.io.dims;
}

function fits(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((dim, i) => dim === -1 || b[i] === -1 || dim === b[i]);
}
