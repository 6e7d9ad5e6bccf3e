/** Adaptive batching delay (decision 005): single-client traffic skips the delay, and other traffic keeps its batches. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createRandom } from "../support/random.ts";
import { type ClosedLoop, DELAY_MS, type Execution, playTraffic, randomArrivals } from "./steady-traffic.ts";

const NEAR_MS = 0.01;
/** Among 52 requests of a single client the first 32 wait, then every 17th. */
const WAITING_REQUESTS = [...Array.from({ length: 32 }, (_, i) => i), 33, 50];
/** Requests that may run alone before a waiting one detects others. */
const MAX_UNNOTICED = 16;
/** The first waiting request may be the last of its group: then the next one detects others. */
const MAX_UNNOTICED_IN_GROUPS = 33;
const JOIN_MS = 60;

function loops(count: number, thinkMs: number, fromMs: number = 0): ClosedLoop[] {
  const random = createRandom(count);
  return Array.from({ length: count }, () => ({
    fromMs: fromMs + random.next(),
    thinkMs: () => thinkMs * (0.8 + 0.4 * random.next()),
  }));
}

function waiting(executions: readonly Execution[]): number[] {
  return executions.flatMap(({ waitsMs }, i) => (Math.max(...waitsMs) > DELAY_MS - NEAR_MS ? [i] : []));
}

function sizeOfBatches(executions: readonly Execution[], numUncounted: number): number {
  return executions.flatMap(({ waitsMs }) => waitsMs).length / (executions.length - numUncounted);
}

test("BatchScheduler skips the delay for a single client, except for one request in 17", async () => {
  const executions = await playTraffic({ isAdaptive: true, runMs: 0.05, clients: loops(1, 0.1), untilMs: JOIN_MS });
  assert.deepEqual(waiting(executions.slice(0, 52)), WAITING_REQUESTS);
  const times = executions.slice(0, 52).flatMap(({ waitsMs }) => waitsMs);
  assert.ok(times.every((waitMs) => waitMs < NEAR_MS || Math.abs(waitMs - DELAY_MS) < NEAR_MS));
});

test("BatchScheduler delays a single client's requests when the model switches the adaptive delay off", async () => {
  const executions = await playTraffic({ isAdaptive: false, runMs: 0.05, clients: loops(1, 0.1), untilMs: JOIN_MS });
  assert.equal(waiting(executions).length, executions.length);
});

const ASIDE = [
  { preserve_ordering: true },
  { preferred_batch_size: [2, 64] },
  { priority_levels: 2, default_priority_level: 1 },
  { max_queue_delay_microseconds: 6000 },
];
for (const batching of ASIDE) {
  test(`BatchScheduler delays a single client's requests when batching has ${JSON.stringify(batching)}`, async () => {
    const delayMs = (batching.max_queue_delay_microseconds ?? DELAY_MS * 1000) / 1000;
    const clients = loops(1, 0.1);
    const executions = await playTraffic({ isAdaptive: true, runMs: 0, clients, batching, untilMs: 100 * delayMs });
    assert.ok(executions.length > 48);
    assert.ok(executions.every(({ waitsMs }) => (waitsMs[0] ?? 0) > delayMs - NEAR_MS));
  });
}

for (const runMs of [0, 0.05, 0.3, 3]) {
  for (const thinkMs of [0.05, 0.3]) {
    const title = `clients that run for ${runMs} ms and think for ${thinkMs} ms`;

    test(`BatchScheduler makes the same batches of several ${title} with and without the adaptive delay`, async () => {
      for (const count of [2, 3, 16]) {
        const play = (isAdaptive: boolean): Promise<readonly Execution[]> =>
          playTraffic({ isAdaptive, runMs, clients: loops(count, thinkMs), untilMs: JOIN_MS });
        assert.deepEqual(await play(true), await play(false));
      }
    });

    test(`BatchScheduler makes batches again when others join one of the ${title}`, async () => {
      for (const count of [1, 2, 15]) {
        const play = async (isAdaptive: boolean): Promise<readonly Execution[]> => {
          const clients = [...loops(1, thinkMs), ...loops(count, thinkMs, JOIN_MS)];
          const all = await playTraffic({ isAdaptive, runMs, clients, untilMs: JOIN_MS * 3 });
          return all.filter(({ atMs }) => atMs > JOIN_MS + 1);
        };
        const adaptive = sizeOfBatches(await play(true), MAX_UNNOTICED);
        const delayed = sizeOfBatches(await play(false), 0);
        assert.ok(adaptive > 0.98 * delayed, `${adaptive} requests a batch in place of ${delayed}`);
      }
    });
  }
}

/** Groups of near arrivals, one after the other, for a synchronous model. */
function groupsAfterSingles(
  numSingles: number,
  size: number,
): { readonly startMs: number; readonly arrivalsMs: number[] } {
  const startMs = 10 * numSingles;
  const singles = Array.from({ length: numSingles }, (_, i) => 10 * i);
  const grouped = Array.from({ length: 100 * size }, (_, i) => startMs + 10 * Math.floor(i / size) + 0.01 * (i % size));
  return { startMs, arrivalsMs: [...singles, ...grouped] };
}

for (const size of [2, 3, 4, 8, 16]) {
  test(`BatchScheduler makes batches again when groups of ${size} follow any number of single requests`, async () => {
    for (let numSingles = 33; numSingles < 33 + size; numSingles++) {
      const { startMs, arrivalsMs } = groupsAfterSingles(numSingles, size);
      const all = await playTraffic({ isAdaptive: true, runMs: 0, arrivalsMs, untilMs: 0 });
      const numExecutions = all.filter(({ atMs }) => atMs >= startMs).length;
      assert.ok(
        numExecutions <= 100 + MAX_UNNOTICED_IN_GROUPS,
        `${numExecutions} executions of 100 groups after ${numSingles}`,
      );
    }
  });
}

test("BatchScheduler runs at most a twentieth more for random arrivals, however rare they are", async () => {
  for (const perDelay of [0.01, 0.03, 0.06, 0.1, 0.3]) {
    const arrivalsMs = randomArrivals(createRandom(7), perDelay / DELAY_MS, 1500);
    const play = async (isAdaptive: boolean): Promise<number> =>
      (await playTraffic({ isAdaptive, runMs: 0, arrivalsMs, untilMs: 0 })).length;
    const [adaptive, delayed] = [await play(true), await play(false)];
    assert.ok(adaptive <= 1.05 * delayed, `${perDelay} in a delay: ${adaptive} executions in place of ${delayed}`);
  }
});
