import assert from "node:assert/strict";
import { test } from "node:test";
import { NEUTRAL_REQUEST } from "../request/generate.ts";
import { Sequence } from "../request/sequence.ts";
import { uniformAt } from "../sample/random.ts";
import type { PlannerConfig } from "./planner-config.ts";
import type { StepPlan } from "./step-plan.ts";
import { StepPlanner } from "./step-planner.ts";

const SINK = {
  started: (): void => undefined,
  token: (): void => undefined,
  extra: (): void => undefined,
  beams: (): void => undefined,
  finished: (): void => undefined,
  failed: (): void => undefined,
};

function createPlanner(changes: Partial<PlannerConfig> = {}): StepPlanner {
  return new StepPlanner({
    numBlocks: 16,
    numHostBlocks: 0,
    blockSize: 4,
    window: undefined,
    maxSequences: 8,
    maxBatchTokens: 16,
    chunkedPrefill: true,
    prefixReuse: false,
    policy: "guaranteed_no_evict",
    ...changes,
  });
}

function sequence(length: number, maxTokens: number, first = 0): Sequence {
  const promptTokens = Int32Array.from({ length }, (_, i) => (i + first) % 50);
  const limits = { blockSize: 4, vocabSize: 64, maxSequenceLength: 64 };
  return new Sequence({ ...NEUTRAL_REQUEST, promptTokens, maxTokens }, SINK, limits);
}

/** Plans a step and carries it out: every complete sequence gets one token, or ends at its limit. */
function step(planner: StepPlanner, now = 1): number[] | undefined {
  const plan = planner.plan();
  if (plan === undefined) return undefined;
  const lengths = [...plan.queryLengths];
  carryOut(planner, plan, now);
  planner.checkIntegrity();
  return lengths;
}

function carryOut(planner: StepPlanner, plan: StepPlan, now: number): void {
  for (const each of plan.admitted) each.firstScheduledNs = now;
  for (const [i, each] of [...plan.sequences].entries()) {
    planner.computed(each, plan.queryLengths[i] ?? 0);
    if (each.numComputed < each.numTokens) continue;
    each.append(7);
    if (each.numTokens === each.maxLength) planner.remove(each);
  }
}

test("plan() is undefined when there is nothing to do", () => {
  assert.equal(createPlanner().plan(), undefined);
});

test("plan() decodes every running sequence and gives prompts what the budget leaves, in chunks", () => {
  const planner = createPlanner({ maxBatchTokens: 10 });
  planner.add(sequence(4, 9));
  planner.add(sequence(20, 3));
  assert.deepEqual(step(planner), [4, 6]);
  assert.deepEqual(step(planner), [1, 9]);
  assert.deepEqual(step(planner), [1, 5]);
  assert.deepEqual(step(planner), [1, 1]);
});

test("plan() without chunking takes prompts whole, one that exceeds the budget alone", () => {
  const planner = createPlanner({ maxBatchTokens: 10, chunkedPrefill: false });
  for (const length of [6, 5, 20]) planner.add(sequence(length, 2));
  assert.deepEqual(step(planner), [6]);
  assert.deepEqual(step(planner), [1, 5]);
  assert.deepEqual(step(planner), [1, 20]);
});

test("plan() admits in order of arrival up to the number of sequences", () => {
  const planner = createPlanner({ maxSequences: 2 });
  const [a, b, c] = [sequence(1, 2), sequence(1, 5), sequence(1, 5)];
  for (const each of [a, b, c]) planner.add(each);
  assert.deepEqual(planner.plan()?.sequences, [a, b]);
});

test("plan() under guaranteed_no_evict admits what can run to its end, under max_utilization what fits now", () => {
  for (const [policy, expected] of [
    ["guaranteed_no_evict", 1],
    ["max_utilization", 3],
  ] as const) {
    const planner = createPlanner({ policy, numBlocks: 10 });
    for (let i = 0; i < 3; i++) planner.add(sequence(4, 25)); // 7 blocks at the end, 1 now
    assert.equal(planner.plan()?.sequences.length, expected);
  }
});

test("plan() preempts the newest sequence when blocks run out, and takes it up again from its tokens", () => {
  const planner = createPlanner({ policy: "max_utilization", numBlocks: 4 });
  const [old, young] = [sequence(4, 8), sequence(4, 8)];
  planner.add(old);
  planner.add(young);
  for (let i = 0; i < 5; i++) assert.deepEqual(step(planner), i === 0 ? [4, 4] : [1, 1]);
  assert.deepEqual(planner.plan()?.sequences, [old]);
  assert.equal(young.numBlocks, 0);
  assert.equal(planner.numPaused, 1);
  assert.equal(young.numOutput, 5);
  carryOut(planner, planner.plan() ?? assert.fail("nothing planned"), 2);
  while (planner.numRunning > 0 && old.numTokens < old.maxLength) step(planner, 3);
  assert.deepEqual(step(planner), [9]);
});

test("plan() holds blocks of a matched prefix and computes the rest", () => {
  const planner = createPlanner({ prefixReuse: true });
  const first = sequence(10, 1);
  planner.add(first);
  assert.deepEqual(step(planner), [10]);
  planner.add(sequence(10, 1));
  planner.add(sequence(8, 1));
  assert.deepEqual(step(planner), [2, 4]);
  assert.equal(planner.numReusedBlocks, 3);
});

function removeSome(planner: StepPlanner, draw: (below: number) => number): void {
  for (const each of [...planner.sequences()]) if (draw(4) === 0) planner.remove(each);
}

for (const policy of ["guaranteed_no_evict", "max_utilization"] as const) {
  for (const seed of [11, 12, 13, 14]) {
    test(`random loads end, within limits and without losing a block (${policy}, seed ${seed})`, () => {
      let draws = 0;
      const draw = (below: number): number => Math.floor(uniformAt(seed, 3, draws++) * below);
      const config = { policy, maxBatchTokens: 1 + draw(24), maxSequences: 1 + draw(8), prefixReuse: draw(2) === 0 };
      const planner = createPlanner({ ...config, numBlocks: 16 });
      let left = 120;
      let steps = 0;
      while (left > 0 || planner.numWaiting + planner.numRunning > 0) {
        if (left > 0 && draw(2) === 0) {
          planner.add(sequence(1 + draw(40), 1 + draw(30), draw(3)));
          left -= 1;
        }
        const lengths = step(planner, ++steps) ?? [];
        assert.equal(lengths.length <= config.maxSequences, true);
        const total = lengths.reduce((sum, length) => sum + length, 0);
        assert.equal(total <= Math.max(config.maxBatchTokens, config.maxSequences + 1), true);
        if (draw(20) === 0) removeSome(planner, draw);
        assert.equal(steps < 20_000, true, `${steps} steps, ${JSON.stringify(config)}`);
      }
      assert.equal(planner.numFreeBlocks, 16);
      assert.equal(policy === "guaranteed_no_evict" ? planner.numPreemptions : 0, 0);
    });
  }
}

const REUSING = { prefixReuse: true, numBlocks: 64, maxBatchTokens: 64 } as const;

test("plan() lets a prompt wait a step for the beginning that another one computes, and others pass", () => {
  const planner = createPlanner(REUSING);
  const [first, second, other] = [sequence(14, 4), sequence(10, 4), sequence(9, 4, 20)];
  for (const each of [first, second, other]) planner.add(each);
  assert.deepEqual(step(planner), [14, 9]);
  // Two blocks of four are known by now.
  assert.deepEqual(step(planner), [1, 1, 2]);
  assert.equal(second.reusedBlocks, 2);
});

test("plan() lets nobody wait for blocks of another salt or image, for less than a block, or without reuse", () => {
  const salted = sequence(14, 4);
  salted.request = { ...salted.request, cacheSalt: "another" };
  const keyed = sequence(14, 4);
  keyed.tokenKeys = Int32Array.of(0, 0, 0, 1);
  for (const [other, changes] of [
    [salted, {}],
    [keyed, {}],
    [sequence(4, 4), {}], // its last token is computed in any case
    [sequence(14, 4), { prefixReuse: false }],
  ] as const) {
    const planner = createPlanner({ ...REUSING, ...changes });
    planner.add(sequence(14, 4));
    planner.add(other);
    assert.equal(planner.plan()?.sequences.length, 2);
  }
});

test("plan() lets a prompt wait for two steps at most", () => {
  const planner = createPlanner(REUSING);
  const [first, second] = [sequence(14, 9), sequence(14, 9)];
  planner.add(first);
  planner.add(second);
  for (const expected of [1, 1, 2]) {
    assert.equal(planner.plan()?.sequences.length, expected);
    // Computed, but not known to the cache: a device works on it.
    first.numComputed = first.numTokens;
    first.numPending = 1;
  }
});
