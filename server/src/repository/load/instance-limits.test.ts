import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { createTestRepository, identityConfig, type TestRepository } from "../../../../tests/fakes/model-repository.ts";
import { collect, fakeRequest, int32 } from "../../../../tests/fakes/requests.ts";
import type { Backend, Batch, ModelInstance } from "../../backend/backend.ts";
import { RateLimiter } from "../../scheduler/rate-limiter.ts";
import { type ExplicitLimit, ResourceLimits } from "../../scheduler/resource-limits.ts";

/** Runs each batch for some turns of the event loop, and counts how many run at once. */
function countingBackend(): Backend & { running: number; most: number; order: string[] } {
  const backend = {
    name: "counting",
    running: 0,
    most: 0,
    order: [] as string[],
    load: async (source: { readonly name: string }) => ({
      createInstance: async ({ name }: { readonly name: string }) => ({
        name,
        async execute(batch: { readonly requests: readonly { respond(r: { outputs: []; final: true }): void }[] }) {
          backend.order.push(source.name);
          backend.running += 1;
          backend.most = Math.max(backend.most, backend.running);
          await sleep(1);
          backend.running -= 1;
          for (const request of batch.requests) request.respond({ outputs: [], final: true });
        },
        isReady: () => true,
        close: async () => undefined,
      }),
      close: async () => undefined,
    }),
    close: async () => undefined,
  };
  return backend;
}

const SEQUENCES = `sequence_batching {
  control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] } ]
}`;

function limited(resources: string, extra = ""): string {
  return identityConfig(
    `instance_group [ { kind: KIND_CPU count: 2 rate_limiter { resources [ ${resources} ] } } ] ${extra}`,
  ).replace("identity", "counting");
}

function create(
  models: Readonly<Record<string, string>>,
  backend: Backend,
  explicit: ExplicitLimit[] = [],
): TestRepository {
  const files = Object.entries(models).flatMap(([name, config]) => [
    [`${name}/config.pbtxt`, config],
    [`${name}/1/.keep`, ""],
  ]);
  const limiter = new RateLimiter(new ResourceLimits(explicit));
  return createTestRepository(Object.fromEntries(files), [backend], undefined, { limiter });
}

function ask({ registry }: TestRepository, model: string, id = 0n, signal?: AbortSignal): Promise<unknown> {
  const sequence = { id, start: id !== 0n, end: id !== 0n };
  const request = { ...fakeRequest([int32("INPUT0", [1, 1], [1])]), sequence };
  return collect(registry.lookUp(model, "").infer(signal === undefined ? request : { ...request, signal }));
}

const ONE = '{ name: "R" global: true count: 1 }';

/** Notes which model executes; model `hold` until it is let go, the others at once or after a turn of the event loop. */
function orderBackend(isSynchronous: boolean): Backend & { readonly order: string[]; letGo(): void } {
  const order: string[] = [];
  let letGo = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const runOf = (model: string): ModelInstance["execute"] => {
    const answer = ({ requests }: Batch): undefined => {
      order.push(model);
      for (const request of requests) request.respond({ outputs: [], final: true });
    };
    if (model === "hold") return (batch) => held.then(() => answer(batch));
    return (batch) => (isSynchronous ? answer(batch) : Promise.resolve().then(() => answer(batch)));
  };
  return {
    name: "counting",
    order,
    letGo: () => letGo(),
    load: async ({ name: model }) => ({
      createInstance: async ({ name }) => ({
        name,
        execute: runOf(model),
        isReady: () => true,
        close: async () => undefined,
      }),
      close: async () => undefined,
    }),
    close: async () => undefined,
  };
}

const weighted = (priority: number): string =>
  identityConfig(
    `instance_group [ { kind: KIND_CPU rate_limiter { resources [ ${ONE} ] priority: ${priority} } } ]`,
  ).replace("identity", "counting");

/** Priorities of two models, and how often each executes among the first so many, both having requests all the time. */
const SHARES: readonly (readonly [number, number, number, number, number])[] = [
  [1, 2, 30, 20, 10],
  [1, 3, 40, 30, 10],
  [2, 3, 50, 30, 20],
  [5, 5, 20, 10, 10],
  [0, 4, 50, 40, 10],
];
for (const [first, second, total, ofFirst, ofSecond] of SHARES) {
  for (const isSynchronous of [true, false]) {
    const how = isSynchronous ? "at once" : "later";
    test(`models of priorities ${first} and ${second} that answer ${how} share a resource ${ofFirst} to ${ofSecond}`, async () => {
      const backend = orderBackend(isSynchronous);
      await using repository = create({ hold: weighted(1), a: weighted(first), b: weighted(second) }, backend);
      await repository.manager.loadAtStart(undefined);
      const holding = ask(repository, "hold");
      const asked = Array.from({ length: total }, () => [ask(repository, "a"), ask(repository, "b")]);
      backend.letGo();
      await Promise.all([holding, ...asked.flat()]);
      const order = backend.order.slice(1, total + 1);
      assert.deepEqual(
        ["a", "b"].map((model) => order.filter((one) => one === model).length),
        [ofFirst, ofSecond],
      );
    });
  }
}

test("instances of two models and of a sequence batcher take turns for a resource that they share", async () => {
  const backend = countingBackend();
  await using repository = create({ a: limited(ONE), b: limited(ONE), s: limited(ONE, SEQUENCES) }, backend);
  assert.deepEqual([...(await repository.manager.loadAtStart(undefined)).values()], []);
  const asked = Array.from({ length: 12 }, (_, i) => [
    ask(repository, "a"),
    ask(repository, "b"),
    ask(repository, "s", BigInt(i + 1)),
  ]);
  const answers = await Promise.all(asked.flat());
  assert.equal(answers.length, 36);
  assert.equal(backend.most, 1);
  assert.deepEqual(new Set(backend.order.slice(0, 3)), new Set(["a", "b", "s"]));
});

test("a limit by flag lets as many instances run as it has resources for", async () => {
  const backend = countingBackend();
  await using repository = create({ a: limited(ONE), b: limited(ONE) }, backend, [{ name: "R", count: 3, device: -1 }]);
  await repository.manager.loadAtStart(undefined);
  await Promise.all(Array.from({ length: 20 }, (_, i) => ask(repository, i % 2 === 0 ? "a" : "b")));
  assert.equal(backend.most, 3);
});

test("a request that is cancelled while its model waits for resources gives up its place", async () => {
  const backend = countingBackend();
  await using repository = create({ a: limited(ONE), b: limited(ONE) }, backend);
  await repository.manager.loadAtStart(undefined);
  const first = ask(repository, "a");
  const abort = new AbortController();
  const given = ask(repository, "b", 0n, abort.signal);
  abort.abort();
  await assert.rejects(given, /cancelled/);
  await first;
  await Promise.all([ask(repository, "a"), ask(repository, "b")]);
  assert.deepEqual(backend.order.toSorted(), ["a", "a", "b"]);
});

test("load() fails when resources would never do, and a reloaded model gives back what the old one held", async () => {
  const backend = countingBackend();
  await using repository = create({ a: limited(ONE) }, backend, [{ name: "R", count: 1, device: -1 }]);
  const { manager } = repository;
  await manager.load("a", {});
  const old = ask(repository, "a");
  repository.write("a/config.pbtxt", `${limited(ONE)} response_cache { enable: false }`);
  await manager.load("a", {});
  await Promise.all([old, ask(repository, "a")]);
  assert.equal(backend.most, 1);
  repository.write("a/config.pbtxt", limited('{ name: "R" global: true count: 2 }'));
  await assert.rejects(manager.load("a", {}), /Resource count for "R" is limited to 1 which will prevent/);
  await ask(repository, "a");
});
