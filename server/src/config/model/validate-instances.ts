/** Rules of `instance_group`, applied after kinds and devices are resolved. */
import type { ModelConfig, ModelInstanceGroup } from "../../core/model-config.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";

const TENSORRT_PLATFORM = "tensorrt_plan";

export interface GpuAvailability {
  readonly ids: readonly number[];
  /** `--min-supported-compute-capability`: quoted when a group requests an unusable device. */
  readonly minComputeCapability: number;
  /** Only groups that say KIND_GPU run there. */
  readonly byRequestOnly?: boolean;
}

/** @throws ServerError naming the group and the model */
export function validateInstanceGroups(config: ModelConfig, gpus: GpuAvailability): void {
  if (config.ensemble_scheduling !== undefined) return;
  if (config.instance_group.length === 0) {
    throw invalidArgument(`must specify one or more 'instance group's for ${config.name}`);
  }
  for (const group of config.instance_group) {
    const subject = `instance group ${group.name} of model ${config.name}`;
    validateKind(group, subject, gpus);
    validateProfiles(group, subject, config.platform);
  }
}

function validateKind(group: ModelInstanceGroup, subject: string, gpus: GpuAvailability): void {
  if (group.kind === "KIND_AUTO") throw new ServerError("internal", `${subject} has unexpected kind KIND_AUTO`);
  if (group.kind !== "KIND_GPU") {
    if (group.gpus.length > 0)
      throw invalidArgument(`${subject} has kind ${group.kind} but specifies one or more GPUs`);
    return;
  }
  if (gpus.ids.length === 0) throw invalidArgument(`${subject} has kind KIND_GPU but server does not support GPUs`);
  for (const id of group.gpus) {
    if (gpus.ids.includes(id)) continue;
    const capability = gpus.minComputeCapability.toFixed(6);
    throw invalidArgument(
      `${subject} specifies invalid or unsupported gpu id ${id}. GPUs with at least the minimum required CUDA compute compatibility of ${capability} are: ${gpus.ids.join(", ")}`,
    );
  }
}

function validateProfiles(group: ModelInstanceGroup, subject: string, platform: string): void {
  if (group.profile.length === 0) return;
  if (platform !== TENSORRT_PLATFORM) {
    throw invalidArgument(
      `${subject} and platform ${platform}specifies profile field which is only supported for TensorRT models`,
    );
  }
  for (const profile of group.profile) {
    if (/^\d+$/.test(profile)) continue;
    throw invalidArgument(
      `${subject} and platform ${platform} specifies invalid profile ${profile}. The field should contain the string representation of a non-negative integer.`,
    );
  }
}
