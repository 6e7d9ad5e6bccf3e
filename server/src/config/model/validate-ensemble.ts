/** Rules within one ensemble: its steps, and that every tensor is produced once and used. Knows no other model. */
import type { ModelConfig, ModelEnsembling, ModelEnsemblingStep } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";

/** A tensor in the ensemble's data flow. */
interface FlowTensor {
  readonly name: string;
  /** A step produces it. */
  isMade: boolean;
  isReady: boolean;
  readonly sources: FlowTensor[];
  readonly users: FlowTensor[];
}

export function validateEnsemble(config: ModelConfig, ensemble: ModelEnsembling, ensemblePlatform: string): void {
  const { name } = config;
  if (config.platform !== ensemblePlatform) {
    throw invalidArgument(
      `ensemble scheduling cannot be set for model '${name}' whose platform is not ${ensemblePlatform}`,
    );
  }
  if (config.instance_group.length > 0) {
    throw invalidArgument(`instance group should not be specified for ensemble '${name}'`);
  }
  if (config.optimization !== undefined)
    throw invalidArgument(`optimization should not be specified for ensemble '${name}'`);
  if (config.model_warmup.length > 0) throw invalidArgument(`model_warmup can not be specified for ensemble '${name}'`);
  if (ensemble.step.length === 0) throw invalidArgument(`must specify 'step' for ensemble '${name}'`);
  const tensors = new Map<string, FlowTensor>();
  for (const [index, step] of ensemble.step.entries()) linkStep(name, step, index, tensors);
  markReady(config, tensors);
  for (const { name: output } of config.output) validateOutput(name, output, tensors);
  validateUse(config, tensors);
}

function linkStep(name: string, step: ModelEnsemblingStep, index: number, tensors: Map<string, FlowTensor>): void {
  const inputs = Object.values(step.input_map);
  const outputs = Object.values(step.output_map);
  if (step.model_name === "") throw invalidArgument(`must specify 'model_name' in step ${index} of ensemble '${name}'`);
  if (inputs.length === 0) throw invalidArgument(`must specify 'input_map' in step ${index} of ensemble '${name}'`);
  if (outputs.length === 0) throw invalidArgument(`must specify 'output_map' in step ${index} of ensemble '${name}'`);
  const made = outputs.map((output) => {
    const tensor = tensorOf(output, tensors);
    if (tensor.isMade) {
      throw invalidArgument(
        `ensemble tensor '${output}' can appear in an output map only once for ensemble '${name}' step ${index}`,
      );
    }
    tensor.isMade = true;
    return tensor;
  });
  for (const input of inputs) {
    const source = tensorOf(input, tensors);
    for (const target of made) {
      target.sources.push(source);
      source.users.push(target);
    }
  }
}

function tensorOf(name: string, tensors: Map<string, FlowTensor>): FlowTensor {
  const known = tensors.get(name);
  if (known !== undefined) return known;
  const tensor: FlowTensor = { name, isMade: false, isReady: false, sources: [], users: [] };
  tensors.set(name, tensor);
  return tensor;
}

/** Starts at the ensemble's inputs: a tensor is ready when all its sources are. */
function markReady(config: ModelConfig, tensors: ReadonlyMap<string, FlowTensor>): void {
  const queue = config.input.map(({ name }) => {
    const tensor = tensors.get(name);
    if (tensor === undefined)
      throw invalidArgument(`ensemble input '${name}' for ensemble ${config.name}' is not used`);
    tensor.isReady = true;
    return tensor;
  });
  for (let tensor = queue.pop(); tensor !== undefined; tensor = queue.pop()) {
    for (const user of tensor.users) {
      if (user.isReady || !user.sources.every(({ isReady }) => isReady)) continue;
      user.isReady = true;
      queue.push(user);
    }
  }
}

function validateOutput(ensemble: string, output: string, tensors: ReadonlyMap<string, FlowTensor>): void {
  const tensor = tensors.get(output);
  if (tensor === undefined) throw invalidArgument(`ensemble output '${output}' for ensemble ${ensemble}' is not used`);
  if (tensor.isReady) return;
  const missing = unreadyOrigin(tensor);
  const cause =
    missing === tensor ? "" : `: at least one of its depending tensors, '${missing.name}', is not connected`;
  throw invalidArgument(`output '${output}' for ensemble '${ensemble}' is not written${cause}`);
}

/** Follows unready tensors back to the first; stops at a cycle. */
function unreadyOrigin(tensor: FlowTensor): FlowTensor {
  const seen = new Set<FlowTensor>();
  let origin = tensor;
  for (;;) {
    const next = origin.sources.find((source) => !source.isReady && !seen.has(source));
    if (next === undefined) return origin;
    seen.add(next);
    origin = next;
  }
}

function validateUse(config: ModelConfig, tensors: ReadonlyMap<string, FlowTensor>): void {
  const outputs = new Set(config.output.map(({ name }) => name));
  for (const tensor of tensors.values()) {
    if (outputs.has(tensor.name) || (tensor.isReady && tensor.users.length > 0)) continue;
    throw invalidArgument(`ensemble tensor '${tensor.name}' is unused in ensemble '${config.name}'`);
  }
}
