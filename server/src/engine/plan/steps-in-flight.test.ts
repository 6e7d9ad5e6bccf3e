import assert from "node:assert/strict";
import { test } from "node:test";
import { NEUTRAL_REQUEST } from "../request/generate.ts";
import { Sequence, type SequenceSink } from "../request/sequence.ts";
import type { ChosenTokens, TokenChoice } from "../step-runner.ts";
import { StepsInFlight } from "./steps-in-flight.ts";

const SINK = {} as SequenceSink;
const LIMITS = { blockSize: 4, vocabSize: 64, maxSequenceLength: 100 };

function sequenceOf(length: number, maxTokens = 10): Sequence {
  return new Sequence({ ...NEUTRAL_REQUEST, promptTokens: new Int32Array(length), maxTokens }, SINK, LIMITS);
}

function chosen(tokens: readonly number[]): Promise<ChosenTokens> {
  const logProbs = new Float32Array(tokens.length);
  return Promise.resolve({ tokens: Int32Array.from(tokens), logProbs, logits: Float32Array.of(0.5, 1.5) });
}

const CHOICE = {} as TokenChoice;

/** Results of each step: tokens in the order of their sequences, and the shared ones. */
function watch(sequences: readonly Sequence[]): {
  readonly steps: StepsInFlight;
  readonly shared: string[];
  readonly settle: () => Promise<string[]>;
} {
  const shared: string[] = [];
  const nameOf = (sequence: Sequence): number => sequences.indexOf(sequence);
  const share = (sequence: Sequence, first: number, end: number): void =>
    void shared.push(`${nameOf(sequence)}: ${first}-${end}`);
  const steps = new StepsInFlight({ share }, 1, ({ request }) => request.topPDecay === 1);
  const settle = async (): Promise<string[]> => {
    const taken: string[] = [];
    await steps.settle(() => 1, {
      token: (sequence, { tokens }, at) => {
        taken.push(`${nameOf(sequence)}: ${tokens[at]}`);
        sequence.append(tokens[at] ?? -1);
      },
      row: (sequence, row) => {
        taken.push(`${nameOf(sequence)}: row ${row[0]}`);
        sequence.append(0);
      },
    });
    return taken;
  };
  return { steps, shared, settle };
}

test("StepsInFlight lets sequences go on before their tokens are there, and hands these out in order", async () => {
  const [a, b] = [sequenceOf(3), sequenceOf(8)];
  const { steps, shared, settle } = watch([a, b]);
  steps.add({ sequences: [a, b], queryLengths: [3, 5] }, [CHOICE], chosen([11]), 0);
  assert.deepEqual([a.numToCompute, b.numToCompute, a.numPending, b.numPending], [1, 3, 1, 0]);
  steps.add({ sequences: [a, b], queryLengths: [1, 3] }, [CHOICE, CHOICE], chosen([12, 21]), 0);
  assert.deepEqual([a.numPending, b.numPending, a.pendingRow, b.pendingRow], [2, 1, 0, 1]);
  assert.deepEqual(await settle(), ["0: 11"]);
  assert.deepEqual(await settle(), ["0: 12", "1: 21"]);
  assert.deepEqual([a.numTokens, a.numPending, a.numComputed, b.numTokens], [5, 0, 4, 9]);
  assert.deepEqual(shared, ["0: 0-3", "1: 0-5", "0: 3-4", "1: 5-8"]);
});

test("StepsInFlight throws away what a sequence gets after its end", async () => {
  const [a, b] = [sequenceOf(2), sequenceOf(2)];
  const { steps, shared, settle } = watch([a, b]);
  steps.add({ sequences: [a, b], queryLengths: [2, 2] }, [CHOICE, CHOICE], chosen([1, 2]), 0);
  steps.add({ sequences: [a, b], queryLengths: [1, 1] }, [CHOICE, CHOICE], chosen([3, 4]), 0);
  await settle();
  a.isOver = true;
  assert.deepEqual(await settle(), ["1: 4"]);
  assert.deepEqual(shared, ["0: 0-2", "1: 0-2", "1: 2-3"]);
});

test("StepsInFlight takes the token but not the blocks of a sequence that has given these up", async () => {
  const a = sequenceOf(4);
  const { steps, shared, settle } = watch([a]);
  steps.add({ sequences: [a], queryLengths: [4] }, [CHOICE], chosen([9]), 0);
  a.numReleases += 1;
  a.numComputed = 0;
  assert.equal(a.numToCompute, 5);
  assert.deepEqual(await settle(), ["0: 9"]);
  assert.deepEqual(shared, []);
});

test("StepsInFlight leaves a sequence alone whose last token is on its way", () => {
  const a = sequenceOf(4, 1);
  const { steps } = watch([a]);
  steps.add({ sequences: [a], queryLengths: [4] }, [CHOICE], chosen([9]), 0);
  assert.equal(a.numToCompute, 0);
});

test("StepsInFlight tells of a step that fails when it is settled, and drops the rest in silence", async () => {
  const a = sequenceOf(2);
  const { steps, settle } = watch([a]);
  steps.add({ sequences: [a], queryLengths: [2] }, [CHOICE], Promise.reject(new Error("lost")), 0);
  steps.add({ sequences: [a], queryLengths: [1] }, [CHOICE], Promise.reject(new Error("lost too")), 0);
  await assert.rejects(settle(), /lost/);
  await steps.drop();
  assert.equal(steps.count, 0);
});

test("StepsInFlight has sequences without a choice wait for their rows, and others whose tokens change the next choice", async () => {
  const decaying = { ...NEUTRAL_REQUEST, promptTokens: new Int32Array(2), topPDecay: 0.5, maxTokens: 9 };
  const [a, b, c, d] = [sequenceOf(2), sequenceOf(2), new Sequence(decaying, SINK, LIMITS), sequenceOf(2)];
  const { steps, shared, settle } = watch([a, b, c, d]);
  const choices = [undefined, CHOICE, CHOICE, undefined];
  steps.add({ sequences: [a, b, c, d], queryLengths: [2, 2, 2, 2] }, choices, chosen([-1, 5, 6, -1]), 0);
  assert.deepEqual(
    [a, b, c, d].map(({ numToCompute, numPending, isAwaited }) => [numToCompute, numPending, isAwaited]),
    [
      [0, 0, true],
      [1, 1, false],
      [0, 0, true],
      [0, 0, true],
    ],
  );
  assert.equal(b.pendingRow, 1);
  steps.add({ sequences: [b], queryLengths: [1] }, [CHOICE], chosen([7]), 0);
  a.cancelled = true;
  assert.deepEqual(await settle(), ["1: 5", "2: 6", "3: row 1.5"]);
  assert.deepEqual(
    [a, c, d].map(({ isAwaited }) => isAwaited),
    [false, false, false],
  );
  assert.deepEqual(shared, ["1: 0-2", "2: 0-2", "3: 0-2"]);
  assert.deepEqual(await settle(), ["1: 7"]);
});

test("StepsInFlight computes nothing of a sequence that gave up its blocks until its row is there", async () => {
  const a = sequenceOf(4);
  const { steps, settle } = watch([a]);
  steps.add({ sequences: [a], queryLengths: [4] }, [undefined], chosen([-1]), 0);
  a.numReleases += 1;
  a.numComputed = 0;
  assert.equal(a.numToCompute, 0);
  assert.deepEqual(await settle(), ["0: row 0.5"]);
  assert.equal(a.numToCompute, 5);
});
