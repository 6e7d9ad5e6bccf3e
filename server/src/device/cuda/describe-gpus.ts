/** Describes this machine's GPUs in words: libraries and devices. Opens none, and never fails. */
import { describeCudaLibraries, findCudaLibrary } from "../../native/cuda/libraries.ts";
import { type FoundGpus, findGpus } from "./find-gpus.ts";

const BYTES_PER_GIB: number = 2 ** 30;

/** Nothing where there is no driver. */
export function describeGpus(
  hasDriver: () => boolean = () => findCudaLibrary("driver").path !== undefined,
  libraries: () => readonly string[] = describeCudaLibraries,
  find: () => FoundGpus = findGpus,
): readonly string[] {
  if (!hasDriver()) return [];
  const { gpus, notes } = find();
  const lines = gpus.map(
    ({ ordinal, name, capability, numBytes }) =>
      `GPU ${ordinal}: ${name}, compute capability ${(capability / 10).toFixed(1)}, ${(numBytes / BYTES_PER_GIB).toFixed(0)} GiB`,
  );
  return [...libraries(), ...lines, ...notes];
}
