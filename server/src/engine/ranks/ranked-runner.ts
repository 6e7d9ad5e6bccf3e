/**
 * Leads the GPUs that run one model together: each step goes to the others and is then done here. To the engine it is a
 * runner like any other. It knows no way to reach the others.
 */
import { type CudaRunnerOptions, createCudaRunner } from "../cuda/create-runner.ts";
import type { DecoderCudaRunner } from "../cuda/cuda-runner.ts";
import type { ChosenTokens, StepInput, StepRunner, TokenChoice } from "../step-runner.ts";
import type { Follower } from "./follower.ts";
import { newGroupIds, openGroup, type RankLayout } from "./rank-group.ts";
import { RankedAdapters } from "./ranked-adapters.ts";
import { frameStep } from "./step-frame.ts";

/** Ranks from 1 on are the followers, in order. @throws Error with the reason of the rank that failed first */
export async function createRankedRunner(
  options: CudaRunnerOptions,
  layout: RankLayout,
  followers: readonly Follower[],
): Promise<StepRunner> {
  const failed = Promise.race(followers.map((follower) => follower.failed));
  failed.catch(() => undefined);
  const all = (stage: "opened" | "ready"): Promise<unknown> =>
    Promise.race([failed, Promise.all(followers.map((follower) => follower[stage]))]);
  try {
    const runner = await createCudaRunner(options, async (device) => {
      failed.catch((error: unknown) => device.giveUp(error instanceof Error ? error : new Error(String(error))));
      await all("opened");
      const ids = newGroupIds(layout);
      for (const follower of followers) follower.join(ids);
      const group = openGroup(device, ids, 0, layout, options.isDeterministic);
      options.tell?.(describeGroup(layout, group.sharesMemory, options.isDeterministic));
      return group;
    });
    await all("ready");
    return new RankedRunner(runner, followers, layout);
  } catch (error) {
    for (const follower of followers) void follower.close().catch(() => undefined);
    throw error;
  }
}

function describeGroup(
  { numTensorRanks, numStages }: RankLayout,
  sharesMemory: boolean,
  isDeterministic = false,
): string {
  const which = isDeterministic ? "all" : "small";
  const elsewhere = isDeterministic ? "all sums in the order of GPUs, of parts through NCCL" : "all sums through NCCL";
  const sums = sharesMemory ? `${which} sums through each other's memory` : elsewhere;
  return `${numTensorRanks * numStages} GPUs: ${numTensorRanks} share each layer, ${numStages} stages; ${sums}`;
}

/** The leader's own, and what each rank holds of an adapter. */
export type LeadingRunner = StepRunner & Partial<Pick<DecoderCudaRunner, "adapterShares">>;

export class RankedRunner implements StepRunner {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly numHostBlocks: number;
  readonly window: number | undefined;
  /** About as much on each. */
  readonly gpuBytes: number;
  readonly hasAxes: boolean;
  readonly maxPositions: number;
  readonly eosTokenIds: readonly number[] | undefined;
  readonly choose: StepRunner["choose"];
  readonly maxChoices: number | undefined;
  readonly adapters: RankedAdapters | undefined;
  readonly stepsAhead: boolean;
  /** The leader's own. */
  readonly inner: StepRunner;
  readonly #followers: readonly Follower[];

  /** Takes over the runner and the followers. */
  constructor(inner: LeadingRunner, followers: readonly Follower[], { numStages }: RankLayout) {
    this.vocabSize = inner.vocabSize;
    this.hiddenSize = inner.hiddenSize;
    this.blockSize = inner.blockSize;
    this.numBlocks = inner.numBlocks;
    this.numHostBlocks = inner.numHostBlocks ?? 0;
    this.window = inner.window;
    this.gpuBytes = (inner.gpuBytes ?? 0) * (1 + followers.length);
    this.hasAxes = inner.hasAxes ?? false;
    this.maxPositions = inner.maxPositions;
    this.eosTokenIds = inner.eosTokenIds;
    // Every rank that has all logits chooses tokens. After the first stage no rank has those of the previous step.
    this.stepsAhead = inner.stepsAhead === true && numStages === 1;
    this.inner = inner;
    const { adapters, adapterShares: shares } = inner;
    if (adapters !== undefined && shares !== undefined) this.adapters = new RankedAdapters(adapters, shares, followers);
    this.#followers = followers;
    const { choose } = inner;
    this.maxChoices = inner.maxChoices;
    this.choose =
      choose === undefined
        ? undefined
        : (input, choices): Promise<ChosenTokens> => {
            this.#send(input, choices);
            return choose(input, choices);
          };
  }

  run(input: StepInput): Promise<Float32Array> {
    this.#send(input, undefined);
    return this.inner.run(input);
  }

  async close(): Promise<void> {
    const gone = this.#followers.map((follower) => follower.close());
    await this.inner.close();
    await Promise.all(gone);
  }

  #send(input: StepInput, choices: readonly (TokenChoice | undefined)[] | undefined): void {
    const words = frameStep(input, choices, this.blockSize);
    for (const follower of this.#followers) follower.send(words);
  }
}
