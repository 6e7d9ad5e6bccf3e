/** A model of files on an emulated GPU. */
import { type CudaRunnerOptions, loadCudaRunner } from "../../server/src/engine/cuda/create-runner.ts";
import type { DecoderCudaRunner } from "../../server/src/engine/cuda/cuda-runner.ts";
import type { GroupMember } from "../../server/src/engine/ranks/rank-group.ts";
import { openModelFiles } from "../../server/src/formats/hf/model-files.ts";
import { parseDecoderConfig } from "../../server/src/models/config/parse-decoder-config.ts";
import type { EmulatedGpu } from "./emulated-gpu.ts";

/** `group`: where other GPUs run the model too. */
export async function openEmulated(
  gpu: EmulatedGpu,
  options: CudaRunnerOptions,
  group?: GroupMember,
): Promise<DecoderCudaRunner> {
  const { files, tensors } = await openModelFiles(options.modelDir);
  const alone = { usesGraphs: false, ...options, beside: undefined };
  try {
    return await loadCudaRunner(gpu.asDevice(), parseDecoderConfig(files), tensors, alone, group);
  } finally {
    await tensors.close();
  }
}
