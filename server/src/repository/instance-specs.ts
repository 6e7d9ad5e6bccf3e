/** Which instances a configuration asks for. Pure. */
import type { InstanceSpec } from "../backend/backend.ts";
import type { ModelConfig, ModelInstanceGroup } from "../core/model-config.ts";

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
