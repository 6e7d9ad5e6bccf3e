import assert from "node:assert/strict";
import { test } from "node:test";
import { createRandom } from "../../../tests/support/random.ts";
import { type Executor, RateLimiter } from "./rate-limiter.ts";
import { type ExplicitLimit, ResourceLimits, type ResourceNeed } from "./resource-limits.ts";

const SEEDS = 300;
const STEPS = 200;

function need(name: string, count: number, device: number | undefined = 0): ResourceNeed {
  return { name, count, device };
}

function executor(needs: readonly ResourceNeed[], priority = 0): Executor {
  return { needs, priority };
}

function limiterOf(executors: readonly Executor[], explicit: readonly ExplicitLimit[] = []): RateLimiter {
  const limiter = new RateLimiter(new ResourceLimits(explicit));
  limiter.register(executors);
  return limiter;
}

test("request() lets executors without needs go at once, however many run", () => {
  const executors = [executor([]), executor([]), executor([need("R", 1)])];
  const limiter = limiterOf(executors);
  assert.deepEqual(
    executors.map((one) => limiter.request(one, () => undefined)),
    [true, true, true],
  );
});

test("request() waits until all that is needed is free, and takes it at once", () => {
  const [both, first, second] = [
    executor([need("A", 1), need("B", 1)]),
    executor([need("A", 1)]),
    executor([need("B", 1)]),
  ];
  const limiter = limiterOf([both, first, second]);
  const granted: string[] = [];
  assert.equal(
    limiter.request(first, () => undefined),
    true,
  );
  assert.equal(
    limiter.request(both, () => granted.push("both")),
    false,
  );
  assert.equal(
    limiter.request(second, () => granted.push("second")),
    false,
  );
  limiter.giveBack(first, true);
  assert.deepEqual(granted, ["both"]);
  limiter.giveBack(both, true);
  assert.deepEqual(granted, ["both", "second"]);
});

test("executors of a higher priority number go less often, in proportion", () => {
  const counts = new Map<Executor, number>();
  const executors = [1, 1, 3, 3].map((priority) => executor([need("R", 1)], priority));
  const limiter = limiterOf(executors);
  const running: Executor[] = [];
  const ask = (one: Executor): void => {
    if (limiter.request(one, () => running.push(one))) running.push(one);
  };
  for (const one of executors) ask(one);
  for (let i = 0; i < 400; i += 1) {
    const one = running.shift();
    assert.ok(one !== undefined);
    counts.set(one, (counts.get(one) ?? 0) + 1);
    limiter.giveBack(one, true);
    ask(one);
  }
  assert.deepEqual([...counts.values()], [150, 150, 50, 50]);
});

test("register() lets a new model begin where the others are, not before all that they had", () => {
  const old = executor([need("R", 1)]);
  const limiter = limiterOf([old]);
  for (let i = 0; i < 10; i += 1) {
    limiter.request(old, () => undefined);
    limiter.giveBack(old, true);
  }
  const young = executor([need("R", 1)], 2);
  limiter.register([young]);
  assert.deepEqual([limiter.score(old), limiter.score(young)], [10, 10]);
});

const REFUSED: readonly (readonly [string, readonly ExplicitLimit[], readonly ResourceNeed[], string])[] = [
  [
    "less than one executor needs",
    [{ name: "R", count: 2, device: -1 }],
    [need("R", 3), need("R", 1)],
    'Resource count for "R" is limited to 2 which will prevent scheduling of one or more model instances, the minimum required count is 3',
  ],
  [
    "less on the one device",
    [
      { name: "R", count: 2, device: 0 },
      { name: "R", count: 1, device: 5 },
      { name: "R", count: 1, device: 1 },
    ],
    [need("R", 2, 0), need("R", 2, 1)],
    'Resource count for "R" is limited to 1 which will prevent scheduling of one or more model instances, the minimum required count is 2',
  ],
  [
    "a resource that is limited on another device only",
    [{ name: "R", count: 10, device: 5 }],
    [need("R", 4)],
    'Resource count for "R" is limited to 0 which will prevent scheduling of one or more model instances, the minimum required count is 4',
  ],
  [
    "a resource that limits of others leave out",
    [
      { name: "S", count: 10, device: -1 },
      { name: "R", count: 1, device: 5 },
    ],
    [need("R", 1)],
    'Resource count for "R" is limited to 0 which will prevent scheduling of one or more model instances, the minimum required count is 1',
  ],
  [
    "a name that is both global and of devices",
    [],
    [need("R", 1, 0), { name: "R", count: 1, device: undefined }],
    'Resource "R" is present as both global and device-specific resource in the model configuration.',
  ],
];
for (const [title, explicit, needs, message] of REFUSED) {
  test(`register() refuses ${title}, and takes none of the executors`, () => {
    const limiter = limiterOf([], explicit);
    const executors = needs.map((one) => executor([one]));
    assert.throws(() => limiter.register(executors), { code: "invalid_argument", message });
    assert.throws(() => limiter.score(executors[0] as Executor), /not registered/);
    limiter.register([executor([need("R", 1, 5)])]); // what was refused left nothing behind
  });
}

/** Random executors come, ask, run, give up and go; counts what each resource has lent. */
class RandomRun {
  readonly limiter: RateLimiter;
  readonly explicit: readonly ExplicitLimit[];
  readonly faults: string[] = [];
  readonly models: Executor[][] = [];
  readonly running = new Set<Executor>();
  readonly waiting = new Set<Executor>();
  readonly #random: (limit: number) => number;

  constructor(seed: number) {
    this.#random = createRandom(seed).below;
    const limits = ["R0", "R1"].map((name, i) => ({ name, count: 4 - i, device: -1 }));
    this.explicit = this.#random(2) === 0 ? [] : limits;
    this.limiter = new RateLimiter(new ResourceLimits(this.explicit));
  }

  step(): void {
    const pick = this.#random(10);
    if (pick === 0 || this.models.length === 0) this.#arrive();
    else if (pick === 1) this.#leave();
    else if (pick < 6) this.#ask();
    else if (pick === 6) this.#giveBack(this.waiting, false);
    else this.#giveBack(this.running, true);
    this.#check();
  }

  /** Everything that runs ends, one by one: nobody may be left waiting. */
  finish(): void {
    while (this.running.size > 0) this.#giveBack(this.running, true);
    if (this.waiting.size > 0) this.faults.push(`${this.waiting.size} starve`);
  }

  #arrive(): void {
    const numNeeds = this.#random(3);
    const model = Array.from({ length: 1 + this.#random(3) }, () => {
      const needs = Array.from({ length: numNeeds }, (_, i) => need(`R${i}`, 1 + this.#random(3), this.#random(2)));
      return executor(needs, this.#random(4));
    });
    this.limiter.register(model);
    this.models.push(model);
  }

  #leave(): void {
    const [model = []] = this.models.splice(this.#random(this.models.length), 1);
    for (const one of model) {
      this.running.delete(one);
      this.waiting.delete(one);
    }
    this.limiter.unregister(model);
  }

  #ask(): void {
    const idle = this.models.flat().filter((one) => !this.running.has(one) && !this.waiting.has(one));
    const one = idle[this.#random(Math.max(1, idle.length))];
    if (one === undefined) return;
    const before = [...this.waiting];
    if (this.limiter.request(one, () => this.#granted(one))) this.running.add(one);
    else this.waiting.add(one);
    const last = Math.max(
      ...before.filter((other) => this.running.has(other)).map((other) => this.limiter.score(other)),
    );
    if (this.waiting.has(one) && this.limiter.score(one) < last) this.faults.push("the one that asks was passed over");
    if (this.running.has(one)) this.#expectFirst(one);
  }

  #granted(one: Executor): void {
    if (!this.waiting.delete(one)) this.faults.push("granted what did not wait");
    this.running.add(one);
    this.#expectFirst(one);
  }

  #expectFirst(one: Executor): void {
    const least = Math.min(...[...this.waiting].map((other) => this.limiter.score(other)));
    if (this.limiter.score(one) > least) this.faults.push("one with a lower score was passed over");
  }

  #giveBack(from: Set<Executor>, hasExecuted: boolean): void {
    const one = [...from][this.#random(Math.max(1, from.size))];
    if (one === undefined) return;
    from.delete(one);
    this.limiter.giveBack(one, hasExecuted);
  }

  #check(): void {
    for (const name of ["R0", "R1"]) {
      for (const device of [0, 1]) {
        const counts = (among: Iterable<Executor>): number[] =>
          [...among].flatMap(({ needs }) =>
            needs.filter((n) => n.name === name && n.device === device).map((n) => n.count),
          );
        const taken = counts(this.running).reduce((sum, count) => sum + count, 0);
        const limit = this.explicit.find((one) => one.name === name)?.count ?? 3;
        if (taken > limit) this.faults.push(`${taken} of ${limit} ${name} on device ${device}`);
      }
    }
  }
}

test(`RateLimiter keeps its limits, goes by score and lets nobody starve, in ${SEEDS} random schedules`, () => {
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const run = new RandomRun(seed);
    for (let step = 0; step < STEPS; step += 1) run.step();
    run.finish();
    assert.deepEqual(run.faults, [], `seed ${seed}`);
  }
});
