/** Models on several GPUs of this machine, in place of one: how the programs here make their runners. */
import { type CudaRunnerOptions, createCudaRunner } from "../../server/src/engine/cuda/create-runner.ts";
import type { DecoderCudaRunner } from "../../server/src/engine/cuda/cuda-runner.ts";
import type { GpuRanks } from "../../server/src/engine/engine-spec.ts";
import { createRankedRunner, RankedRunner } from "../../server/src/engine/ranks/ranked-runner.ts";
import { startThread } from "../../server/src/engine/ranks/thread-follower.ts";
import type { StepRunner } from "../../server/src/engine/step-runner.ts";

/** Properties that measurements need beside the contract of runners. */
export type MeasuredRunner = StepRunner &
  Pick<DecoderCudaRunner, "timings" | "gemms" | "numGraphs"> & { readonly stepsAhead?: boolean };

/** The same for an engine in a process of its own; undefined for one GPU. */
export function gpuRanks(ranks: string): GpuRanks | undefined {
  const [numTensorRanks = 1, numStages = 1] = ranks.split("x").map(Number);
  const count = numTensorRanks * numStages;
  if (count === 1) return undefined;
  return { numTensorRanks, numStages, ordinals: Array.from({ length: count }, (_, i) => i) };
}

/** `ranks`: GPUs that share each layer x stages, e.g. "2x1". */
export async function createRanks(ranks: string, options: CudaRunnerOptions): Promise<MeasuredRunner> {
  const [numTensorRanks = 1, numStages = 1] = ranks.split("x").map(Number);
  if (numTensorRanks * numStages === 1) return createCudaRunner(options);
  const { tell: _, ...plain } = options;
  const layout = { numTensorRanks, numStages };
  const followers = Array.from({ length: numTensorRanks * numStages - 1 }, (_unused, i) =>
    startThread({ rank: i + 1, layout, options: { ...plain, ordinal: i + 1 } }),
  );
  const tell = (line: string): void => console.log(`rank 0: ${line}`);
  const runner = await createRankedRunner({ tell, ...options }, layout, followers);
  if (!(runner instanceof RankedRunner)) throw new Error("expected a runner of several GPUs");
  const inner = runner.inner as DecoderCudaRunner;
  return Object.defineProperties(runner, {
    timings: { get: () => inner.timings },
    gemms: { get: () => inner.gemms },
    numGraphs: { get: () => inner.numGraphs },
  }) as unknown as MeasuredRunner;
}
