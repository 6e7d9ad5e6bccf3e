/** Which GPUs this process could use, for a server that decides where models run. Opens none, and never fails. */
import { type CudaDriver, openCuda } from "../../native/cuda/cuda.ts";
import { DEVICE_ATTRIBUTES } from "../../native/cuda/functions.ts";
import { MIN_CAPABILITY } from "./cuda-device.ts";

export interface FoundGpu {
  readonly ordinal: number;
  readonly name: string;
  /** Times ten: 90 for 9.0. */
  readonly capability: number;
  readonly numBytes: number;
}

export interface FoundGpus {
  /** GPUs that the kernels are written for. */
  readonly gpus: readonly FoundGpu[];
  /** Why there are none, or not all. */
  readonly notes: readonly string[];
}

/** All that the process sees, also those that no kernel here is written for: models that choose their own code run on them. */
export function visibleGpus(open: () => CudaDriver = openCuda): readonly FoundGpu[] {
  try {
    return listGpus(open());
  } catch {
    return [];
  }
}

export function findGpus(open: () => CudaDriver = openCuda): FoundGpus {
  try {
    const driver = open();
    const all = listGpus(driver);
    const gpus = all.filter(({ capability }) => capability >= MIN_CAPABILITY);
    const tooOld = all.filter(({ capability }) => capability < MIN_CAPABILITY);
    return {
      gpus,
      notes: tooOld.map(({ ordinal, name }) => `GPU ${ordinal} (${name}) is older than compute capability 8.0`),
    };
  } catch (error) {
    return { gpus: [], notes: [error instanceof Error ? error.message : String(error)] };
  }
}

function listGpus({ calls, check }: CudaDriver): readonly FoundGpu[] {
  const value = new Int32Array(1);
  check(calls.deviceCount(value), "counting GPUs");
  return Array.from({ length: value[0] ?? 0 }, (_, ordinal) => {
    check(calls.device(value, ordinal), `looking at GPU ${ordinal}`);
    const device = value[0] ?? 0;
    const attribute = (number: number): number => {
      check(calls.deviceAttribute(value, number, device), `looking at GPU ${ordinal}`);
      return value[0] ?? 0;
    };
    const name = Buffer.alloc(256);
    check(calls.deviceName(name, name.length, device), `looking at GPU ${ordinal}`);
    const numBytes = new BigUint64Array(1);
    check(calls.deviceMemory(numBytes, device), `looking at GPU ${ordinal}`);
    const { computeCapabilityMajor, computeCapabilityMinor } = DEVICE_ATTRIBUTES;
    return {
      ordinal,
      name: name.toString("utf8").replace(/\0.*$/s, ""),
      capability: 10 * attribute(computeCapabilityMajor) + attribute(computeCapabilityMinor),
      numBytes: Number(numBytes[0] ?? 0n),
    };
  });
}
