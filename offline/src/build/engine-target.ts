/** Whether an engine fits this machine, for tools that inspect it without serving it. */
import { CpuDevice } from "@nereid/server/device/cpu/cpu-device";
import { type FoundGpus, findGpus } from "@nereid/server/device/cuda/find-gpus";
import { isPackedTensors } from "@nereid/server/formats/trtllm/engine-file";
import { expectTarget } from "@nereid/server/formats/trtllm/engine-header";
import type { TensorSource } from "@nereid/server/formats/tensors/tensor-source";

/** The problem in the server's words; undefined: none, or it is no engine. */
export async function engineProblem(
  tensors: TensorSource,
  find: () => FoundGpus = findGpus,
): Promise<string | undefined> {
  if (!isPackedTensors(tensors)) return undefined;
  const { target, path } = tensors;
  if (target.device !== "cpu") {
    const { gpus } = find();
    // The library's version is checked when the model is loaded.
    if (gpus.some(({ name }) => target.device.endsWith(`(${name})`))) return undefined;
    const here = gpus.length === 0 ? "there is no GPU" : `there is ${gpus.map(({ name }) => name).join(", ")}`;
    return `the engine was built for ${target.device}, here ${here}`;
  }
  const device = new CpuDevice({ numThreads: 1 });
  try {
    expectTarget(target, device.target, path);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  } finally {
    await device.close();
  }
}
