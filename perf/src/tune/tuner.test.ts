import assert from "node:assert/strict";
import { test } from "node:test";
import { type Constraint, type Goal, judge, type PointSamples } from "./objective.ts";
import { FULL_UNITS, type Point, Race, winner } from "./race.ts";
import { allVariants, doublings, neighboursOf, type SearchSpace } from "./search-space.ts";
import { latencyMs, type Surface, simulate } from "./simulated-server.test-support.ts";
import { isPastPeak, paretoFront, type SearchMode } from "./tuner.ts";

const SPACE: SearchSpace = {
  settings: [
    { name: "instance_count", target: { kind: "instance_count" }, values: [1, 2, 3, 4, 5] },
    { name: "max_batch_size", target: { kind: "max_batch_size" }, values: [1, 2, 4, 8, 16] },
    { name: "max_queue_delay_microseconds", target: { kind: "queue_delay_us" }, values: [0, 1000, 5000] },
  ],
  loads: [1, 2, 4, 8, 16, 32, 64],
};
const THROUGHPUT = [{ metric: "perf_throughput", weight: 1 }] as const;
const SURFACES: readonly (readonly [name: string, surface: Surface])[] = [
  ["batches pay", { batchMs: 10, rowMs: 0.5, processors: 2, noise: 0.15 }],
  ["batches do not pay", { batchMs: 0.1, rowMs: 5, processors: 4, noise: 0.15 }],
  ["many instances pay", { batchMs: 20, rowMs: 5, processors: 16, noise: 0.15 }],
];

/** The best throughput that keeps the constraint for certain, by the formula. */
function trueBest(surface: Surface, maxMs: number): number {
  const rates = allVariants(SPACE).flatMap((variant) =>
    SPACE.loads.map((load) => {
      const mean = trueLatency(surface, variant, load);
      return mean <= maxMs ? (load * 1000) / mean : 0;
    }),
  );
  return Math.max(...rates);
}

function trueLatency(surface: Surface, variant: readonly number[], load: number): number {
  const [instances = 1, maxBatch = 1, delayUs = 0] = SPACE.settings.map(({ values }, k) =>
    Number(values[variant[k] ?? 0]),
  );
  return latencyMs(surface, { instances, maxBatch, delayMs: delayUs / 1000 }, load);
}

for (const mode of ["brute", "quick"] as const satisfies readonly SearchMode[]) {
  for (const [name, surface] of SURFACES) {
    test(`the ${mode} search comes within 5 % of the best in a quarter of the time where ${name}`, () => {
      const goal: Goal = { objectives: THROUGHPUT, constraints: [] };
      const whole = simulate(SPACE, surface, goal, "full", 1);
      for (const seed of [1, 2, 3, 4, 5]) {
        const { points, costMs } = simulate(SPACE, surface, goal, mode, seed);
        const found = winner(points);
        assert.ok(found);
        const rate = (found.load * 1000) / trueLatency(surface, found.variant, found.load);
        const best = trueBest(surface, Number.POSITIVE_INFINITY);
        assert.ok(rate >= best * 0.95, `seed ${seed}: ${rate} of ${best}`);
        assert.ok(costMs <= whole.costMs / 4, `seed ${seed}: ${costMs} of ${whole.costMs}`);
      }
    });
  }
}

test("the search keeps a latency constraint", () => {
  const [, surface] = SURFACES[0] ?? [];
  assert.ok(surface);
  const constraints: readonly Constraint[] = [{ metric: "perf_latency_avg", max: 30 }];
  const goal: Goal = { objectives: THROUGHPUT, constraints };
  for (const seed of [1, 2, 3]) {
    const found = winner(simulate(SPACE, surface, goal, "quick", seed).points);
    assert.ok(found);
    const mean = trueLatency(surface, found.variant, found.load);
    assert.ok(mean <= 30 * 1.05, `seed ${seed}: ${mean} ms`);
    assert.ok((found.load * 1000) / mean >= trueBest(surface, 30) * 0.9);
  }
});

test("a search that nothing satisfies ends without a winner", () => {
  const goal: Goal = { objectives: THROUGHPUT, constraints: [{ metric: "perf_latency_p99", max: 0.001 }] };
  const { points } = simulate(SPACE, { batchMs: 10, rowMs: 1, processors: 2, noise: 0.1 }, goal, "quick", 1);
  assert.equal(winner(points), undefined);
  assert.ok(points.every(({ standing }) => standing === "violated"));
});

function samplesOf(groups: readonly (readonly number[])[], load = 1, numFailed = 0): PointSamples {
  return { load, batchSize: 2, groups, numFailed };
}

test("judge() computes throughput by Little's law, and intervals from the groups", () => {
  const { metrics, half, score } = judge(
    samplesOf(
      [
        [10, 10],
        [20, 20],
      ],
      4,
    ),
    { objectives: THROUGHPUT, constraints: [] },
  );
  assert.ok(Math.abs(metrics.perf_throughput - (4 * 2 * 1000) / 15) < 1e-9);
  assert.ok(Math.abs(score - Math.log(metrics.perf_throughput)) < 1e-9);
  assert.ok(half > 1);
});

for (const [standing, groups, load, numFailed] of [
  [
    "met",
    [
      [1, 2, 3],
      [1, 2, 3],
    ],
    1,
    0,
  ],
  [
    "open",
    [
      [1, 2, 30],
      [1, 2, 3],
    ],
    8,
    0,
  ],
  ["violated", [new Array(30).fill(20), new Array(30).fill(20)], 1, 0],
  [
    "failed",
    [
      [1, 2, 3],
      [1, 2, 3],
    ],
    1,
    1,
  ],
  ["failed", [], 1, 4],
] as const) {
  test(`judge() calls a point ${standing} with ${groups.flat().length} latencies and ${numFailed} failures`, () => {
    const goal: Goal = { objectives: THROUGHPUT, constraints: [{ metric: "perf_latency_p99", max: 10 }] };
    assert.equal(judge(samplesOf(groups, load, numFailed), goal).standing, standing);
  });
}

function pointOf(place: number, part: Partial<Point>): Point {
  return { variant: [place], load: 1, units: 1, score: 0, half: 0.01, standing: "met", p99Ms: 1, ...part };
}

test("Race drops what an interval puts below the best, and measures the rest longer", () => {
  const points = [pointOf(0, { score: 1 }), pointOf(1, { score: 0.5 }), pointOf(2, { score: 0.9, half: 0.2 })];
  const turns = new Race().next(points);
  assert.deepEqual(
    turns?.map(({ variant, loads }) => [variant, loads]),
    [
      [[0], [{ load: 1, units: 3 }]],
      [[2], [{ load: 1, units: 3 }]],
    ],
  );
});

test("Race gives the next best its chance when no finalist keeps the constraints", () => {
  const race = new Race();
  const points = [
    pointOf(0, { score: 1, units: FULL_UNITS, standing: "violated" }),
    pointOf(1, { score: 0.9, units: 4, standing: "open" }),
    pointOf(2, { score: 0.8, units: 4 }),
  ];
  race.next([]);
  assert.equal(winner(points), undefined);
  assert.deepEqual(
    race.next(points)?.map(({ variant }) => variant),
    [[1]],
  );
  const second = points.with(1, pointOf(1, { score: 0.9, units: FULL_UNITS, standing: "violated" }));
  assert.deepEqual(
    race.next(second)?.map(({ variant }) => variant),
    [[2]],
  );
  const third = second.with(2, pointOf(2, { score: 0.8, units: FULL_UNITS }));
  assert.equal(race.next(third), undefined);
  assert.deepEqual(winner(third)?.variant, [2]);
});

test("winner() takes the lower latency of two that tie", () => {
  const one = pointOf(0, { score: 1, units: FULL_UNITS, p99Ms: 20 });
  const other = pointOf(1, { score: 0.99, units: FULL_UNITS, p99Ms: 10 });
  assert.equal(winner([one, other]), other);
});

test("allVariants() has no delay where nothing is batched", () => {
  const variants = allVariants(SPACE);
  assert.equal(variants.length, 5 * (1 + 4 * 3));
  assert.deepEqual(neighboursOf(SPACE, [0, 0, 0]), [
    [1, 0, 0],
    [0, 1, 0],
  ]);
});

test("doublings() contains both limits", () => {
  assert.deepEqual(doublings(1, 8), [1, 2, 4, 8]);
  assert.deepEqual(doublings(3, 10), [3, 4, 8, 10]);
  assert.deepEqual(doublings(2, 2), [2]);
});

test("isPastPeak() needs two loads without growth", () => {
  assert.equal(isPastPeak([1, 2, 2]), false);
  assert.equal(isPastPeak([1, 2, 2, 2.05]), true);
  assert.equal(isPastPeak([1, 2, 2, 3]), false);
});

test("paretoFront() keeps what no other point beats in both", () => {
  const points = [
    { throughput: 10, p99Ms: 5 },
    { throughput: 8, p99Ms: 6 },
    { throughput: 20, p99Ms: 9 },
    { throughput: 9, p99Ms: 5 },
  ];
  assert.deepEqual(paretoFront(points), [points[0], points[2]]);
});
