/** Instances of models with sequences, and of models under a rate limiter, come and go without a reload. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestRepository, identityConfig, type TestRepository } from "../../../../tests/fakes/model-repository.ts";
import { collect, fakeRequest, int32 } from "../../../../tests/fakes/requests.ts";
import { eventually } from "../../../../tests/support/probe-server.ts";
import type { Backend } from "../../backend/backend.ts";
import { RateLimiter } from "../../scheduler/rate-limiter.ts";
import { ResourceLimits } from "../../scheduler/resource-limits.ts";

interface Notes {
  readonly made: string[];
  readonly closed: string[];
  /** Which instance ran a request, by the id of its sequence. */
  readonly ran: [sequence: bigint | string, instance: string][];
}

function notingBackend({ made, closed, ran }: Notes): Backend {
  return {
    name: "noting",
    load: async () => ({
      async createInstance({ name }) {
        made.push(name);
        return {
          name,
          async execute(batch) {
            await Promise.resolve();
            for (const request of batch.requests) {
              ran.push([request.request.sequence.id, name]);
              request.respond({ outputs: [], final: true });
            }
          },
          isReady: () => true,
          close: async () => void closed.push(name),
        };
      },
      close: async () => undefined,
    }),
    close: async () => undefined,
  };
}

const SEQUENCES = {
  direct: "sequence_batching { direct { } }",
  oldest: "sequence_batching { oldest { max_candidate_sequences: 4 } }",
};
const NEED_R = 'rate_limiter { resources [ { name: "R" global: true count: 1 } ] }';

function config(count: number, rest: string, group = ""): string {
  return identityConfig(`instance_group [ { name: "i" kind: KIND_CPU count: ${count} ${group} } ] ${rest}`)
    .replace("identity", "noting")
    .replace(/max_batch_size: \d+/, "max_batch_size: 1");
}

function create(text: string, notes: Notes, limiter?: RateLimiter): TestRepository {
  return createTestRepository(
    { "m/config.pbtxt": text, "m/1/weights": "w" },
    [notingBackend(notes)],
    undefined,
    limiter === undefined ? {} : { limiter },
  );
}

async function reload(repository: TestRepository, text: string): Promise<void> {
  repository.write("m/config.pbtxt", text);
  await repository.manager.load("m", {});
}

async function step({ registry }: TestRepository, id: bigint, flags: { start?: boolean; end?: boolean } = {}) {
  const request = fakeRequest([int32("INPUT0", [1, 1], [1])], { sequence: { id, start: false, end: false, ...flags } });
  return collect(registry.lookUp("m", "").infer(request));
}

async function until(found: () => readonly string[], wanted: readonly string[]): Promise<void> {
  await eventually(
    async () => found(),
    (names) => names.join() === wanted.join(),
  );
}

function emptyNotes(): Notes {
  return { made: [], closed: [], ran: [] };
}

for (const [strategy, text] of Object.entries(SEQUENCES)) {
  test(`an instance with a sequence goes when the sequence ends (${strategy})`, async () => {
    const notes = emptyNotes();
    await using repository = create(config(3, text), notes);
    await repository.manager.load("m", {});
    const served = repository.registry.lookUp("m", "");
    await step(repository, 1n, { start: true });
    await step(repository, 2n, { start: true });
    const of = (id: bigint) => new Set(notes.ran.filter(([sequence]) => sequence === id).map(([, name]) => name));
    assert.deepEqual([of(1n), of(2n)], [new Set(["i_0"]), new Set(["i_1"])]);
    await reload(repository, config(1, text));
    assert.equal(repository.registry.lookUp("m", ""), served);
    await until(() => notes.closed, ["i_2"]);
    const third = step(repository, 3n, { start: true, end: true });
    await step(repository, 2n);
    assert.deepEqual(notes.closed, ["i_2"]);
    await step(repository, 2n, { end: true });
    await until(() => notes.closed, ["i_2", "i_1"]);
    await step(repository, 1n, { end: true });
    await third;
    assert.deepEqual([of(1n), of(2n), of(3n)], [new Set(["i_0"]), new Set(["i_1"]), new Set(["i_0"])]);
    await reload(repository, config(2, text));
    await step(repository, 4n, { start: true });
    await step(repository, 5n, { start: true });
    assert.deepEqual([of(4n), of(5n)], [new Set(["i_0"]), new Set(["i_1"])]);
    assert.deepEqual(notes.made, ["i_0", "i_1", "i_2", "i_1"]);
  });
}

test("a sequence that waits for a slot gets one of an instance that is added", async () => {
  const notes = emptyNotes();
  await using repository = create(config(1, SEQUENCES.direct), notes);
  await repository.manager.load("m", {});
  await step(repository, 1n, { start: true });
  const waiting = step(repository, 2n, { start: true, end: true });
  await reload(repository, config(2, SEQUENCES.direct));
  await waiting;
  assert.deepEqual(notes.ran, [
    [1n, "i_0"],
    [2n, "i_1"],
  ]);
});

test("a model unloads while an instance that was taken away still has a sequence", async () => {
  const notes = emptyNotes();
  await using repository = create(config(2, SEQUENCES.direct), notes);
  await repository.manager.load("m", {});
  await step(repository, 1n, { start: true });
  await step(repository, 2n, { start: true });
  await reload(repository, config(1, SEQUENCES.direct));
  await repository.manager.unload("m", false);
  await until(() => notes.closed.toSorted(), ["i_0", "i_1"]);
});

test("instances under a rate limiter are registered and unregistered one by one", async () => {
  const limits = new ResourceLimits([{ name: "R", count: 2, device: -1 }]);
  const notes = emptyNotes();
  await using repository = create(config(1, "", NEED_R), notes, new RateLimiter(limits));
  await repository.manager.load("m", {});
  const served = repository.registry.lookUp("m", "");
  await reload(repository, config(4, "", NEED_R));
  await Promise.all(Array.from({ length: 8 }, () => step(repository, 0n)));
  await reload(repository, config(1, "", NEED_R));
  await step(repository, 0n);
  assert.equal(repository.registry.lookUp("m", ""), served);
  assert.deepEqual(notes.made, ["i_0", "i_1", "i_2", "i_3"]);
  assert.deepEqual(notes.closed.toSorted(), ["i_1", "i_2", "i_3"]);
  await assert.rejects(
    reload(repository, config(2, "", NEED_R.replace("count: 1", "count: 3"))),
    /Resource count for "R" is limited to 2 which will prevent/,
  );
  await step(repository, 0n);
});
