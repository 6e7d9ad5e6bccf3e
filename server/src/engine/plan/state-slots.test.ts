import assert from "node:assert/strict";
import { test } from "node:test";
import { NEUTRAL_REQUEST } from "../request/generate.ts";
import { Sequence, type SequenceSink } from "../request/sequence.ts";
import { NO_STATE, StateSlots } from "./state-slots.ts";
import { StepPlanner } from "./step-planner.ts";

const nothing = (): void => undefined;
const SINK: SequenceSink = {
  started: nothing,
  token: nothing,
  extra: nothing,
  beams: nothing,
  finished: nothing,
  failed: nothing,
};

function sequenceOf(length: number): Sequence {
  const request = { ...NEUTRAL_REQUEST, promptTokens: new Int32Array(length).fill(3), maxTokens: 4 };
  return new Sequence(request, SINK, { blockSize: 4, vocabSize: 16, maxSequenceLength: 64 });
}

test("StateSlots gives each sequence a slot of its own, and slots that were released again", () => {
  const slots = new StateSlots(2);
  const [a, b, c] = [sequenceOf(3), sequenceOf(3), sequenceOf(3)];
  slots.take(a);
  slots.take(b);
  assert.deepEqual([a.state, b.state, slots.hasRoom], [0, 1, false]);
  assert.throws(() => slots.take(c), /none is free/);
  slots.release(a);
  assert.equal(a.state, NO_STATE);
  slots.take(c);
  assert.equal(c.state, 0);
  slots.checkIntegrity([b, c]);
  assert.throws(() => slots.checkIntegrity([b]), /state slots: 1 held and 0 free of 2/);
});

test("StateSlots of a runner without states holds nobody back", () => {
  const slots = new StateSlots(undefined);
  const one = sequenceOf(3);
  slots.take(one);
  assert.deepEqual([one.state, slots.hasRoom], [NO_STATE, true]);
  slots.checkIntegrity([one]);
});

test("plan() admits as many sequences as there are slots, and the next when one ends", () => {
  const planner = new StepPlanner({
    ...{ numBlocks: 32, numHostBlocks: 0, numStates: 2, blockSize: 4, window: undefined, prefixReuse: false },
    ...{ maxSequences: 8, maxBatchTokens: 64, chunkedPrefill: true, policy: "max_utilization" },
  });
  const all = [sequenceOf(5), sequenceOf(6), sequenceOf(7)];
  for (const each of all) planner.add(each);
  assert.equal(planner.plan()?.sequences.length, 2);
  assert.deepEqual([...all.map(({ state }) => state)].sort(), [-1, 0, 1]);
  const [first] = all;
  assert.ok(first !== undefined);
  planner.remove(first);
  assert.ok(planner.plan()?.sequences.includes(all[2] ?? first));
  planner.checkIntegrity();
});
