/** A lone client is not kept waiting, and nobody else's batches become smaller for it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createRandom } from "../support/random.ts";
import { type ClosedLoop, DELAY_MS, type Execution, playTraffic, randomArrivals } from "./steady-traffic.ts";

const NEAR_MS = 0.01;
/** Of 52 requests of a lone client: the first 32 wait for company, and each seventeenth looks for it again. */
const WAITING_OF_LONE = [...Array.from({ length: 32 }, (_, i) => i), 33, 50];
/** Requests that may go alone before one that waits finds out that there are others. */
const MAX_UNNOTICED = 16;
/** The first that waits may be the last of its group: then it is the next. */
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

test("BatchScheduler lets a lone client's requests go without the delay, but for one in seventeen", async () => {
  const executions = await playTraffic({ delaysLone: false, runMs: 0.05, clients: loops(1, 0.1), untilMs: JOIN_MS });
  assert.deepEqual(waiting(executions.slice(0, 52)), WAITING_OF_LONE);
  const times = executions.slice(0, 52).flatMap(({ waitsMs }) => waitsMs);
  assert.ok(times.every((waitMs) => waitMs < NEAR_MS || Math.abs(waitMs - DELAY_MS) < NEAR_MS));
});

test("BatchScheduler delays a lone client's requests when the model says so", async () => {
  const executions = await playTraffic({ delaysLone: true, runMs: 0.05, clients: loops(1, 0.1), untilMs: JOIN_MS });
  assert.equal(waiting(executions).length, executions.length);
});

const ASIDE = [
  { preserve_ordering: true },
  { preferred_batch_size: [2, 64] },
  { priority_levels: 2, default_priority_level: 1 },
  { max_queue_delay_microseconds: 6000 },
];
for (const batching of ASIDE) {
  test(`BatchScheduler delays a lone client's requests where batching has ${JSON.stringify(batching)}`, async () => {
    const delayMs = (batching.max_queue_delay_microseconds ?? DELAY_MS * 1000) / 1000;
    const clients = loops(1, 0.1);
    const executions = await playTraffic({ delaysLone: false, runMs: 0, clients, batching, untilMs: 100 * delayMs });
    assert.ok(executions.length > 48);
    assert.ok(executions.every(({ waitsMs }) => (waitsMs[0] ?? 0) > delayMs - NEAR_MS));
  });
}

for (const runMs of [0, 0.05, 0.3, 3]) {
  for (const thinkMs of [0.05, 0.3]) {
    const title = `clients that run for ${runMs} ms and think for ${thinkMs} ms`;

    test(`BatchScheduler makes the same batches of several ${title} as if nobody were ever alone`, async () => {
      for (const count of [2, 3, 16]) {
        const play = (delaysLone: boolean): Promise<readonly Execution[]> =>
          playTraffic({ delaysLone, runMs, clients: loops(count, thinkMs), untilMs: JOIN_MS });
        assert.deepEqual(await play(false), await play(true));
      }
    });

    test(`BatchScheduler makes batches again when others join a lone one of the ${title}`, async () => {
      for (const count of [1, 2, 15]) {
        const play = async (delaysLone: boolean): Promise<readonly Execution[]> => {
          const clients = [...loops(1, thinkMs), ...loops(count, thinkMs, JOIN_MS)];
          const all = await playTraffic({ delaysLone, runMs, clients, untilMs: JOIN_MS * 3 });
          return all.filter(({ atMs }) => atMs > JOIN_MS + 1);
        };
        const spared = sizeOfBatches(await play(false), MAX_UNNOTICED);
        const delayed = sizeOfBatches(await play(true), 0);
        assert.ok(spared > 0.98 * delayed, `${spared} requests a batch in place of ${delayed}`);
      }
    });
  }
}

/** Each group comes together, but one after the other, to a model that answers on the spot. */
function groupsAfterLone(numLone: number, size: number): { readonly startMs: number; readonly arrivalsMs: number[] } {
  const startMs = 10 * numLone;
  const lone = Array.from({ length: numLone }, (_, i) => 10 * i);
  const grouped = Array.from({ length: 100 * size }, (_, i) => startMs + 10 * Math.floor(i / size) + 0.01 * (i % size));
  return { startMs, arrivalsMs: [...lone, ...grouped] };
}

for (const size of [2, 3, 4, 8, 16]) {
  test(`BatchScheduler makes batches again when groups of ${size} come behind lone requests, however many these were`, async () => {
    for (let numLone = 33; numLone < 33 + size; numLone++) {
      const { startMs, arrivalsMs } = groupsAfterLone(numLone, size);
      const all = await playTraffic({ delaysLone: false, runMs: 0, arrivalsMs, untilMs: 0 });
      const numExecutions = all.filter(({ atMs }) => atMs >= startMs).length;
      assert.ok(
        numExecutions <= 100 + MAX_UNNOTICED_IN_GROUPS,
        `${numExecutions} executions of 100 groups after ${numLone}`,
      );
    }
  });
}

test("BatchScheduler runs at most a twentieth more for random arrivals, however rare they are", async () => {
  for (const perDelay of [0.01, 0.03, 0.06, 0.1, 0.3]) {
    const arrivalsMs = randomArrivals(createRandom(7), perDelay / DELAY_MS, 1500);
    const play = async (delaysLone: boolean): Promise<number> =>
      (await playTraffic({ delaysLone, runMs: 0, arrivalsMs, untilMs: 0 })).length;
    const [spared, delayed] = [await play(false), await play(true)];
    assert.ok(spared <= 1.05 * delayed, `${perDelay} in a delay: ${spared} executions in place of ${delayed}`);
  }
});
