/** GPUs of this machine as the server uses them: models that may use them, libraries, metrics. */

import process from "node:process";
import type { UsableGpus } from "../backend/backend.ts";
import type { Environment } from "../core/environment.ts";
import { describeGpus } from "../device/cuda/describe-gpus.ts";
import { type FoundGpus, findGpus, visibleGpus } from "../device/cuda/find-gpus.ts";
import { findCudaLibrary } from "../native/cuda/libraries.ts";
import { type MonitoredGpu, openNvml } from "../native/cuda/nvml.ts";
import { SharedDevices } from "../native/cuda/shared-memory.ts";
import { GpuWatch } from "../observe/gpu-metrics.ts";
import type { Logger } from "../observe/log.ts";
import { DeviceRegions } from "../protocol/device-memory.ts";

const MIN_COMPUTE_CAPABILITY = 8;

let found: FoundGpus | undefined;

/** Looked for when a model that could use one is loaded. */
export function usableGpus(): UsableGpus {
  found ??= isCpuOnly() ? { gpus: [], notes: [] } : findGpus();
  return { ids: found.gpus.map(({ ordinal }) => ordinal), minComputeCapability: MIN_COMPUTE_CAPABILITY };
}

/**
 * For memory on GPUs that clients share; undefined where there is none, or GPUs are left alone. Looked for once, when a client
 * first asks: any client may, so that it must not cost a search each time.
 */
export function deviceRegions(log: Logger): () => DeviceRegions | undefined {
  let known: { readonly regions: DeviceRegions | undefined } | undefined;
  return () => {
    known ??= { regions: hasVisibleGpus() ? new DeviceRegions(new SharedDevices(), log) : undefined };
    return known.regions;
  };
}

function hasVisibleGpus(): boolean {
  return !isCpuOnly() && visibleGpus().length > 0;
}

/** Logs the GPU libraries and devices, if there is a driver. */
export function logGpuLibraries(log: Logger): void {
  if (isCpuOnly()) return;
  for (const line of describeGpus()) log.info("cuda", line);
}

/** Undefined where nobody tells the state of GPUs, or nobody wants to know. */
export function watchGpus(
  { gpu, intervalMs }: { readonly gpu: boolean; readonly intervalMs: number },
  log: Logger,
): GpuWatch | undefined {
  if (!gpu || isCpuOnly() || findCudaLibrary("nvml").path === undefined) return undefined;
  try {
    const { gpus } = openNvml();
    for (const [i, { name }] of gpus.entries()) log.info("metrics", `Collecting metrics for GPU ${i}: ${name}`);
    const watch = new GpuWatch(gpus, intervalMs);
    void watch.read();
    return watch;
  } catch (error) {
    log.warn("metrics", `no metrics of GPUs: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

/** How much of a GPU's memory is used, by whomever; undefined where nobody tells. */
export function usedGpuShare(log: Logger): (device: number) => Promise<number | undefined> {
  let gpus: readonly MonitoredGpu[] | undefined;
  return async (device) => {
    try {
      gpus ??= openNvml().gpus;
      const { usedBytes, totalBytes } = (await gpus[device]?.read()) ?? {};
      return usedBytes === undefined || totalBytes === undefined ? undefined : usedBytes / totalBytes;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      log.warn("model_lifecycle", `--model-load-gpu-limit: the memory of GPU ${device} cannot be read: ${reason}`);
      return undefined;
    }
  };
}

/** Triton's own switch. */
function isCpuOnly(): boolean {
  const { TRITON_SERVER_CPU_ONLY: text }: Environment = process.env;
  return text !== undefined && text !== "" && text !== "0";
}
