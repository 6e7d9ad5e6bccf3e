import assert from "node:assert/strict";
import { test } from "node:test";
import { type ArrivalSchedule, arrivalsOf, arrivalTimes } from "./arrivals.ts";
import { nextBinary, nextLinear, parseRange } from "./load-search.ts";
import { SequenceIds, type SequencePlan, SequenceSteps } from "./sequences.ts";

function first(schedule: ArrivalSchedule, count: number): number[] {
  const times: number[] = [];
  for (const atMs of arrivalTimes(schedule)) {
    times.push(atMs);
    if (times.length === count) break;
  }
  return times;
}

test("arrivalTimes() keeps the rate of a constant schedule without drift", () => {
  assert.deepEqual(first({ kind: "constant", perSecond: 500 }, 4), [0, 2, 4, 6]);
  assert.equal(first({ kind: "constant", perSecond: 3 }, 3001).at(-1), 1_000_000);
});

test("arrivalTimes() draws intervals with the mean and the variation that are asked for", () => {
  for (const burstiness of [0.5, 1, 4]) {
    const times = first({ kind: "gamma", perSecond: 100, burstiness, seed: 5 }, 20_000);
    const intervals = times.map((atMs, k) => atMs - (times[k - 1] ?? 0));
    const mean = intervals.reduce((sum, each) => sum + each, 0) / intervals.length;
    const variance = intervals.reduce((sum, each) => sum + (each - mean) ** 2, 0) / intervals.length;
    assert.ok(Math.abs(mean - 10) < 0.3, `${burstiness}: mean ${mean}`);
    const squaredVariation = variance / mean ** 2;
    assert.ok(Math.abs(squaredVariation * burstiness - 1) < 0.1, `${burstiness}: ${squaredVariation}`);
  }
});

test("arrivalTimes() repeats intervals, and ends with the last timestamp", () => {
  assert.deepEqual(first({ kind: "intervals", intervalsUs: [1000, 3000] }, 4), [1, 4, 5, 8]);
  assert.deepEqual(first({ kind: "timestamps", timesMs: [0, 5] }, 9), [0, 5]);
});

test("arrivalsOf() gives each arrival to one thread", () => {
  const schedule: ArrivalSchedule = { kind: "timestamps", timesMs: [0, 1, 2, 3, 4] };
  const numbers = [0, 1].map((index) => [...arrivalsOf(schedule, index, 2)].map(({ number }) => number));
  assert.deepEqual(numbers, [
    [0, 2, 4],
    [1, 3],
  ]);
});

test("parseRange() takes one to three numbers and refuses the rest", () => {
  assert.deepEqual(parseRange("4", "--r"), { start: 4, end: 4, step: 1 });
  assert.deepEqual(parseRange("1:16:5", "--r"), { start: 1, end: 16, step: 5 });
  for (const text of ["", "0", "4:2", "1:2:0", "1:2:3:4", "a", "1:"]) {
    assert.throws(() => parseRange(text, "--r"), { message: `--r is start:end:step with start <= end, got '${text}'` });
  }
});

test("nextLinear() ends after the last load, or at the first that is too slow", () => {
  const range = { start: 1, end: 5, step: 2 };
  const good = (load: number): { load: number; isGood: boolean } => ({ load, isGood: true });
  assert.equal(nextLinear(range, []), 1);
  assert.equal(nextLinear(range, [good(1)]), 3);
  assert.equal(nextLinear(range, [good(5)]), undefined);
  assert.equal(nextLinear({ ...range, end: 0 }, [good(5)]), 7);
  assert.equal(nextLinear(range, [{ load: 3, isGood: false }]), undefined);
});

test("nextBinary() finds the largest load within the limit", () => {
  const range = { start: 1, end: 64, step: 1 };
  for (const limit of [1, 17, 63, 64]) {
    const measured: { load: number; isGood: boolean }[] = [];
    for (let load = nextBinary(range, measured); load !== undefined; load = nextBinary(range, measured)) {
      measured.push({ load, isGood: load <= limit });
    }
    const best = Math.max(...measured.filter(({ isGood }) => isGood).map(({ load }) => load));
    assert.equal(best, limit);
    assert.ok(measured.length <= 9, `${measured.length} measurements`);
  }
});

const PLAN: SequencePlan = { length: 10, variationPercent: 20, firstId: 7, endId: undefined, seed: 1 };

test("SequenceSteps marks the start and the end of each sequence, with lengths within the variation", () => {
  const steps = new SequenceSteps(PLAN, new SequenceIds(PLAN, 0, 1), 0);
  const lengths = new Map<number, number>();
  for (let k = 0; k < 500; k++) {
    const { id, isStart, isEnd } = steps.next();
    assert.equal(isStart, !lengths.has(id));
    lengths.set(id, (lengths.get(id) ?? 0) + 1);
    assert.ok(!isEnd || ((lengths.get(id) ?? 0) >= 8 && (lengths.get(id) ?? 0) <= 12));
  }
  assert.equal(Math.min(...lengths.keys()), 7);
});

test("SequenceIds gives threads different ids, and starts again at the end", () => {
  const bounded = { ...PLAN, endId: 11 };
  const ids = [0, 1].map((index) => {
    const own = new SequenceIds(bounded, index, 2);
    return [own.next(), own.next(), own.next()];
  });
  assert.deepEqual(ids, [
    [7, 9, 7],
    [8, 10, 8],
  ]);
});
