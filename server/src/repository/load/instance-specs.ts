/**
 * Expands instance groups to instance specs and creates the instances, all or none (model_config.proto,
 * ModelInstanceGroup).
 */
import type { BackendModel, InstanceSpec, ModelInstance } from "../../backend/backend.ts";
import type { ModelConfig, ModelInstanceGroup } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { BackendLog } from "./backend-log.ts";

export interface GroupedSpec {
  readonly group: ModelInstanceGroup;
  readonly spec: InstanceSpec;
}

/**
 * One spec per instance of each group, named as Triton names them: instances on several GPUs share a name. Passive groups are skipped: nothing would run them.
 * `gpusPerInstance` consecutive GPUs of a group run one instance together. @throws ServerError when the GPUs of a group
 * are too few or not divisible
 */
export function instanceSpecs(config: ModelConfig, gpusPerInstance: number = 1): GroupedSpec[] {
  return config.instance_group.flatMap((group) => {
    if (group.passive) return [];
    const specs = gpusPerInstance === 1 ? specsOf(group) : sharedSpecsOf(group, config.name, gpusPerInstance);
    return specs.map((spec): GroupedSpec => ({ group, spec }));
  });
}

function sharedSpecsOf(group: ModelInstanceGroup, model: string, gpusPerInstance: number): InstanceSpec[] {
  if (group.kind !== "KIND_GPU") return specsOf(group);
  const { gpus } = group;
  if (gpus.length === 0 || gpus.length % gpusPerInstance !== 0) {
    const text =
      `instance group ${group.name} of model ${model} has ${gpus.length} GPUs (${gpus.join(", ")}), ` +
      `expected a multiple of the ${gpusPerInstance} that run an instance together`;
    throw invalidArgument(text);
  }
  const first = gpus.filter((_, i) => i % gpusPerInstance === 0);
  return specsOf({ ...group, gpus: first }).map((spec) => {
    const at = gpus.indexOf(spec.deviceId);
    return { ...spec, deviceIds: gpus.slice(at, at + gpusPerInstance) };
  });
}

function specsOf(group: ModelInstanceGroup): InstanceSpec[] {
  const kind = group.kind === "KIND_AUTO" ? "KIND_CPU" : group.kind;
  const names = Array.from({ length: group.count }, (_, i) => `${group.name}_${i}`);
  const devices = kind === "KIND_GPU" ? group.gpus : [0];
  return names.flatMap((name) => devices.map((deviceId) => ({ name, kind, deviceId })));
}

/** Passive instances are never scheduled: without another one, every request would wait for ever. */
export function expectActiveInstance({ name, instance_group }: ModelConfig): void {
  if (instance_group.some((group) => !group.passive)) return;
  const text = `model '${name}' has passive instance groups only, and needs one that is scheduled`;
  throw invalidArgument(text);
}

/** The GPUs that instances run on. */
export function devicesOf(specs: readonly InstanceSpec[]): number[] {
  return specs.filter(({ kind }) => kind === "KIND_GPU").flatMap(({ deviceId, deviceIds }) => deviceIds ?? [deviceId]);
}

/** Creates all at once; when one fails, closes the others. */
export async function createInstances(
  specs: readonly InstanceSpec[],
  model: BackendModel,
  log: BackendLog,
): Promise<ModelInstance[]> {
  const create = (spec: InstanceSpec): Promise<ModelInstance> => {
    log.instanceInitialized(spec);
    return model.createInstance(spec);
  };
  const made = await Promise.allSettled(specs.map(create));
  const instances = made.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  const failed = made.find((result) => result.status === "rejected");
  if (failed === undefined) return instances;
  await Promise.allSettled(instances.map((instance) => instance.close()));
  throw failed.reason;
}
