/** Models on several emulated GPUs: the first on this thread, each other on one of its own, led as those of a machine are. */
import type { CudaRunnerOptions } from "../../server/src/engine/cuda/create-runner.ts";
import type { DecoderCudaRunner } from "../../server/src/engine/cuda/cuda-runner.ts";
import type { RankLayout } from "../../server/src/engine/ranks/rank-group.ts";
import { RankedRunner } from "../../server/src/engine/ranks/ranked-runner.ts";
import { startThread } from "../../server/src/engine/ranks/thread-follower.ts";
import { threadProgram } from "../support/source-loader.ts";
import { type HostCompiler, hostCompiler } from "./compile-emulation.ts";
import type { Exclusive } from "./emulated-device.ts";
import { EmulatedGpu } from "./emulated-gpu.ts";
import { EmulatedGroup, exclusiveIn, newGroupMemory } from "./emulated-group.ts";
import { openEmulated } from "./open-emulated.ts";

const PROGRAM = threadProgram(new URL("./emulated-rank-worker.ts", import.meta.url));

export interface EmulatedRanks {
  readonly runner: RankedRunner;
  /** Another emulated GPU of this thread takes turns with these. */
  readonly exclusive: Exclusive;
}

/** `ranks`: GPUs that share each layer x stages, e.g. "2x1". */
export async function openEmulatedRanks(ranks: string, options: CudaRunnerOptions): Promise<EmulatedRanks> {
  const [numTensorRanks = 1, numStages = 1] = ranks.split("x").map(Number);
  const layout = { numTensorRanks, numStages };
  const followers = Array.from({ length: numTensorRanks * numStages - 1 }, (_unused, i) =>
    startThread({ rank: i + 1, layout, options }, PROGRAM),
  );
  const failed = Promise.race(followers.map((follower) => follower.failed));
  failed.catch(() => undefined);
  await Promise.race([failed, Promise.all(followers.map(({ opened }) => opened))]);
  const memory = newGroupMemory(layout);
  for (const follower of followers) follower.join([new Uint8Array(memory)]);
  const runner = await openEmulatedRank(hostCompiler(), memory, 0, layout, options);
  await Promise.race([failed, Promise.all(followers.map(({ ready }) => ready))]);
  return { runner: new RankedRunner(runner, followers, layout), exclusive: exclusiveIn(memory) };
}

export function openEmulatedRank(
  compiler: HostCompiler,
  memory: SharedArrayBuffer,
  rank: number,
  layout: RankLayout,
  options: CudaRunnerOptions,
): Promise<DecoderCudaRunner> {
  const gpu = new EmulatedGpu(compiler, "sm_90", exclusiveIn(memory));
  return openEmulated(gpu, options, new EmulatedGroup(memory, rank, layout));
}
