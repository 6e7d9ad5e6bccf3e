/** Which instances a configuration asks for, and how they are made: all or none. */
import type { BackendModel, InstanceSpec, ModelInstance } from "../backend/backend.ts";
import type { ModelConfig, ModelInstanceGroup } from "../core/model-config.ts";
import { ServerError } from "../core/server-error.ts";

export interface GroupedSpec {
  readonly group: ModelInstanceGroup;
  readonly spec: InstanceSpec;
}

/** One spec for each instance of each group, named as Triton names them. Passive groups are not made: nothing would run them. */
export function instanceSpecs(config: ModelConfig): GroupedSpec[] {
  return config.instance_group.flatMap((group) =>
    group.passive ? [] : specsOf(group).map((spec): GroupedSpec => ({ group, spec })),
  );
}

function specsOf(group: ModelInstanceGroup): InstanceSpec[] {
  const kind = group.kind === "KIND_AUTO" ? "KIND_CPU" : group.kind;
  const names = Array.from({ length: group.count }, (_, i) => `${group.name}_${i}`);
  if (kind !== "KIND_GPU") return names.map((name) => ({ name, kind, deviceId: 0 }));
  return group.gpus.flatMap((deviceId) => names.map((name) => ({ name: `${name}_gpu${deviceId}`, kind, deviceId })));
}

/** Passive instances are never scheduled: with no other, every request would wait for ever. */
export function expectActiveInstance({ name, instance_group }: ModelConfig): void {
  if (instance_group.some((group) => !group.passive)) return;
  const text = `model '${name}' has passive instance groups only, and needs one that is scheduled`;
  throw new ServerError("invalid_argument", text);
}

/** All at once; when one fails, the others are closed again. */
export async function createInstances(specs: readonly InstanceSpec[], model: BackendModel): Promise<ModelInstance[]> {
  const made = await Promise.allSettled(specs.map((spec) => model.createInstance(spec)));
  const instances = made.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  const failed = made.find((result) => result.status === "rejected");
  if (failed === undefined) return instances;
  await Promise.allSettled(instances.map((instance) => instance.close()));
  throw failed.reason;
}
