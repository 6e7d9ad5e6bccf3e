/**
 * A follower rank: it loads its shard and runs each step that the leader sends. It knows no transport and no request.
 */
import process from "node:process";
import type { CudaRunnerOptions } from "../cuda/create-runner.ts";
import { WarmUpStore } from "../cuda/warm-up-store.ts";
import type { StepRunner } from "../step-runner.ts";
import { unframeAdapter } from "./adapter-frame.ts";
import { FollowedAdapters } from "./followed-adapters.ts";
import { type GroupIds, openGroup, type RankLayout } from "./rank-group.ts";
import { unframeStep } from "./step-frame.ts";

/** The load task of a rank. Plain data. */
export interface RankTask {
  readonly rank: number;
  readonly layout: RankLayout;
  readonly options: Omit<CudaRunnerOptions, "tell">;
}

/** The follower's end of the transport to the leader. */
export interface LeaderPort {
  /** The GPU and the model's files are there: the group may be formed. */
  opened(): void;
  ids(): Promise<GroupIds>;
  ready(numBlocks: number): void;
  /** The words of the next step or adapter; undefined at the end. `isIdle`: this thread has no other work in flight. */
  next(isIdle: boolean): Promise<Int32Array | undefined>;
}

export async function follow({ rank, layout, options }: RankTask, port: LeaderPort): Promise<void> {
  const tell = (line: string): void => void process.stdout.write(`rank ${rank}: ${line}\n`);
  const store = new WarmUpStore();
  // By a dynamic import, so that the module stays a file of its own in a bundle: tests put another in its place.
  const { createCudaRunner } = await import("../cuda/create-runner.ts");
  const runner = await createCudaRunner({ ...options, tell, store }, async (device) => {
    port.opened();
    return openGroup(device, await port.ids(), rank, layout, options.isDeterministic);
  });
  port.ready(runner.numBlocks);
  await followSteps(runner, port);
  await runner.close();
}

/**
 * The leader calls its runner in the same order and waits where needed, so at most as many steps are in flight here.
 */
export async function followSteps(
  runner: Pick<StepRunner, "run" | "choose" | "stepsAhead" | "adapters">,
  port: Pick<LeaderPort, "next">,
): Promise<void> {
  const numAhead = runner.stepsAhead === true ? 1 : 0;
  const adapters = new FollowedAdapters(runner.adapters);
  const inFlight: Promise<unknown>[] = [];
  const settle = async (numLeft: number): Promise<void> => {
    while (inFlight.length > numLeft) await inFlight.shift();
  };
  for (;;) {
    const words = await port.next(inFlight.length === 0 && !adapters.isLoading);
    if (words === undefined) break;
    const frame = unframeAdapter(words);
    if (frame !== undefined) {
      await adapters.take(frame);
      continue;
    }
    const { input, choices } = unframeStep(words);
    await adapters.ready(input);
    if (choices === undefined || runner.choose === undefined) {
      await settle(0);
      await runner.run(input);
      continue;
    }
    await settle(numAhead);
    const step = runner.choose(input, choices);
    step.catch(() => undefined); // waited for later
    inFlight.push(step);
    if (numAhead === 0) await settle(0);
  }
  await settle(0);
}
