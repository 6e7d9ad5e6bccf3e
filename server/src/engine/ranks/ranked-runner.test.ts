import assert from "node:assert/strict";
import { test } from "node:test";
import { threadProgram } from "../../../../tests/support/source-loader.ts";
import type { ChosenTokens, StepInput, StepRunner, TokenChoice } from "../step-runner.ts";
import type { RankTask } from "./follow.ts";
import type { Follower } from "./follower.ts";
import { RankedRunner } from "./ranked-runner.ts";
import { unframeStep } from "./step-frame.ts";
import { startThread, type ThreadFollower } from "./thread-follower.ts";

const PROGRAM = threadProgram(new URL("./echo-rank.test-support.ts", import.meta.url));
const LAYOUT = { numTensorRanks: 2, numStages: 1 };

function taskOf(modelDir: string): RankTask {
  const options = { modelDir, ordinal: 1, blockSize: 16, numBlocks: 4, maxTokens: 16, maxSequences: 2 };
  return { rank: 1, layout: LAYOUT, options };
}

function stepOf(...tokens: readonly number[]): StepInput {
  const tokenIds = Int32Array.from(tokens);
  const positions = tokenIds.map((_, i) => i);
  const sequence = {
    queryStart: 0,
    queryLength: tokens.length,
    contextLength: tokens.length,
    blockTable: Int32Array.of(0),
  };
  return { tokenIds, positions, slots: positions, sequences: [sequence], logitRows: Int32Array.of(tokens.length - 1) };
}

const GREEDY: TokenChoice = {
  temperature: 0,
  topK: 0,
  topP: 0,
  minP: 0,
  seedLow: 0,
  seedHigh: 0,
  index: 0,
  banned: [],
  numTop: 0,
};

class FakeRunner implements StepRunner {
  readonly vocabSize = 32;
  readonly hiddenSize = 8;
  readonly blockSize = 16;
  readonly numBlocks = 4;
  readonly gpuBytes = 1000;
  readonly maxPositions = 64;
  readonly stepsAhead = true;
  readonly log: string[] = [];
  readonly choose = async (): Promise<ChosenTokens> => {
    this.log.push("choose");
    return { tokens: Int32Array.of(7), logProbs: Float32Array.of(-1), logits: new Float32Array() };
  };
  async run(): Promise<Float32Array> {
    this.log.push("run");
    return Float32Array.of(1);
  }
  async close(): Promise<void> {
    this.log.push("close");
  }
}

function recorder(log: string[], rank: number): Follower {
  const done = Promise.resolve();
  return {
    rank,
    opened: done,
    ready: done,
    failed: new Promise(() => undefined),
    join: () => undefined,
    send: (words) => {
      const { input, choices } = unframeStep(words);
      log.push(`${rank}: ${[...input.tokenIds]} ${choices === undefined ? "run" : "choose"}`);
    },
    close: async () => {
      log.push(`${rank}: close`);
    },
  };
}

test("RankedRunner sends each step to all others before it is done here", async () => {
  const inner = new FakeRunner();
  const runner = new RankedRunner(inner, [recorder(inner.log, 1), recorder(inner.log, 2)], LAYOUT);
  assert.equal(runner.gpuBytes, 3000);
  assert.deepEqual(await runner.run(stepOf(1, 2)), Float32Array.of(1));
  assert.deepEqual((await runner.choose?.(stepOf(3), [GREEDY]))?.tokens, Int32Array.of(7));
  await runner.close();
  assert.deepEqual(inner.log, [
    ...["1: 1,2 run", "2: 1,2 run", "run"],
    ...["1: 3 choose", "2: 3 choose", "choose"],
    ...["1: close", "2: close", "close"],
  ]);
});

test("RankedRunner begins a step behind another only where every rank chooses its tokens", () => {
  const stepsAhead = (numStages: number): boolean =>
    new RankedRunner(new FakeRunner(), [], { ...LAYOUT, numStages }).stepsAhead;
  assert.deepEqual([stepsAhead(1), stepsAhead(2)], [true, false]);
});

interface Told {
  readonly sums: number[];
  wait(count: number): Promise<number[]>;
}

function listen(follower: ThreadFollower): Told {
  const sums: number[] = [];
  let arrived: () => void = () => undefined;
  follower.onOther((message) => {
    sums.push((message as { readonly sum: number }).sum);
    arrived();
  });
  return {
    sums,
    wait: async (count) => {
      while (sums.length < count) await new Promise<void>((resolve) => (arrived = resolve));
      return sums;
    },
  };
}

test("startThread() makes a rank that does the steps it is sent in their order", async () => {
  const follower = startThread(taskOf("m"), PROGRAM);
  const told = listen(follower);
  await follower.opened;
  follower.join([Uint8Array.of(4)]);
  await follower.ready;
  const inner = new FakeRunner();
  const runner = new RankedRunner(inner, [follower], LAYOUT);
  await runner.run(stepOf(1, 2));
  await runner.choose?.(stepOf(3), [GREEDY]);
  await runner.choose?.(stepOf(4), [GREEDY]);
  await runner.run(stepOf(5));
  assert.deepEqual(await told.wait(4), [3, 6, 10, 15]);
  await runner.close();
});

test("startThread() tells why a rank could not start, and why it failed later", async () => {
  const missing = startThread(taskOf("missing"), PROGRAM);
  await assert.rejects(missing.failed, /rank 1: the model is not there/);
  await missing.close();
  const unlucky = startThread(taskOf("m"), PROGRAM);
  await unlucky.opened;
  unlucky.join([Uint8Array.of(4)]);
  await unlucky.ready;
  new RankedRunner(new FakeRunner(), [unlucky], LAYOUT).run(stepOf(13));
  await assert.rejects(unlucky.failed, /rank 1: a token that brings bad luck/);
  await unlucky.close();
});
