/** The GPUs of this machine, as tools that examine models see them. */
import { describeGpus } from "@nereid/server/device/cuda/describe-gpus";
import { findGpus } from "@nereid/server/device/cuda/find-gpus";

const MIN_COMPUTE_CAPABILITY = 8;

let ids: readonly number[] | undefined;

/** Looked for once. */
export function machineGpus(): { readonly ids: readonly number[]; readonly minComputeCapability: number } {
  ids ??= findGpus().gpus.map(({ ordinal }) => ordinal);
  return { ids, minComputeCapability: MIN_COMPUTE_CAPABILITY };
}

/** Libraries and devices, a line each; none where there is no driver. */
export function machineGpuLines(): readonly string[] {
  return describeGpus();
}
