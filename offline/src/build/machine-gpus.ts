/** The GPUs of this machine, for tools that inspect models. */
import { describeGpus } from "@nereid/server/device/cuda/describe-gpus";
import { findGpus } from "@nereid/server/device/cuda/find-gpus";

const MIN_COMPUTE_CAPABILITY = 8;

let ids: readonly number[] | undefined;

/** Resolved once. */
export function machineGpus(): { readonly ids: readonly number[]; readonly minComputeCapability: number } {
  ids ??= findGpus().gpus.map(({ ordinal }) => ordinal);
  return { ids, minComputeCapability: MIN_COMPUTE_CAPABILITY };
}

/** Libraries and devices, one line each; none without a driver. */
export function machineGpuLines(): readonly string[] {
  return describeGpus();
}
