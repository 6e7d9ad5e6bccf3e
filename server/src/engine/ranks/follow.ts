/**
 * A GPU that runs a model together with others and is led by the first of them: it loads its share and then does each step
 * that it is sent. It knows no way of being told, and no request.
 */
import process from "node:process";
import { type CudaRunnerOptions, createCudaRunner } from "../cuda/create-runner.ts";
import { parseFault, plantFault } from "../fault-injection.ts";
import type { StepRunner } from "../step-runner.ts";
import { unframeAdapter } from "./adapter-frame.ts";
import { FollowedAdapters } from "./followed-adapters.ts";
import { type GroupIds, openGroup, type RankLayout } from "./rank-group.ts";
import { unframeStep } from "./step-frame.ts";

/** What a rank loads. Plain data. */
export interface RankTask {
  readonly rank: number;
  readonly layout: RankLayout;
  readonly options: Omit<CudaRunnerOptions, "tell">;
}

/** The follower's end of whatever leads to the leader. */
export interface LeaderPort {
  /** The GPU and the model's files are there: the group may be formed. */
  opened(): void;
  ids(): Promise<GroupIds>;
  ready(numBlocks: number): void;
  /** The words of the next step, or of an adapter; undefined: no more. `isIdle`: nothing else is under way on this thread. */
  next(isIdle: boolean): Promise<Int32Array | undefined>;
}

export async function follow({ rank, layout, options }: RankTask, port: LeaderPort): Promise<void> {
  const tell = (line: string): void => void process.stdout.write(`rank ${rank}: ${line}\n`);
  const whole = await createCudaRunner({ ...options, tell }, async (device) => {
    port.opened();
    return openGroup(device, await port.ids(), rank, layout, options.isDeterministic);
  });
  const runner = plantFault(whole, parseFault(process.env.NEREID_TEST_GPU_FAULT));
  port.ready(runner.numBlocks);
  await followSteps(runner, port);
  await runner.close();
}

/** The leader calls the runner in the same order and waits for what it must: here at most as many steps are under way. */
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
