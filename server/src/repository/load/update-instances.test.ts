import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { createTestRepository, identityConfig, type TestRepository } from "../../../../tests/fakes/model-repository.ts";
import { collect, fakeRequest, int32 } from "../../../../tests/fakes/requests.ts";
import type { Backend } from "../../backend/backend.ts";

/** Notes which instances are made, run and closed; an execution takes a turn. */
function notingBackend(notes: string[]): Backend {
  return {
    name: "noting",
    load: async () => {
      notes.push("load");
      return {
        createInstance: async ({ name }) => {
          if (name.startsWith("broken")) throw new Error("no such device");
          notes.push(`+${name}`);
          return {
            name,
            async execute(batch) {
              await sleep(2);
              for (const request of batch.requests) request.respond({ outputs: [], final: true });
            },
            isReady: () => true,
            close: async () => void notes.push(`-${name}`),
          };
        },
        close: async () => void notes.push("close"),
      };
    },
    close: async () => undefined,
  };
}

function groups(text: string, extra = ""): string {
  return identityConfig(`instance_group [ ${text} ] ${extra}`).replace("identity", "noting");
}

const CPU = (count: number, name = "m_0"): string => `{ name: "${name}" kind: KIND_CPU count: ${count} }`;

function create(config: string, notes: string[]): TestRepository {
  return createTestRepository({ "m/config.pbtxt": config, "m/1/weights": "w" }, [notingBackend(notes)]);
}

async function reload(repository: TestRepository, config: string): Promise<void> {
  repository.write("m/config.pbtxt", config);
  await repository.manager.load("m", {});
}

function ask({ registry }: TestRepository): Promise<unknown> {
  return collect(registry.lookUp("m", "").infer(fakeRequest([int32("INPUT0", [1, 1], [1])])));
}

test("load() adds and takes away instances of a model that goes on serving, and tells the new configuration", async () => {
  const notes: string[] = [];
  await using repository = create(groups(CPU(1)), notes);
  const { manager, registry } = repository;
  await manager.load("m", {});
  const served = registry.lookUp("m", "");
  const asked = Array.from({ length: 10 }, () => ask(repository));
  await reload(repository, groups(`${CPU(2)}, ${CPU(1, "more")}`));
  assert.deepEqual(notes.splice(0), ["load", "+m_0_0", "+m_0_1", "+more_0"]);
  assert.equal(registry.lookUp("m", ""), served);
  assert.deepEqual(
    served.config.instance_group.map(({ name, count }) => [name, count]),
    [
      ["m_0", 2],
      ["more", 1],
    ],
  );
  await reload(repository, groups(CPU(1)));
  await Promise.all(asked);
  await ask(repository);
  assert.equal(registry.lookUp("m", ""), served);
  assert.deepEqual(notes.splice(0).sort(), ["-m_0_1", "-more_0"]);
  assert.equal(served.statistics.snapshot("m", "1").inference_stats.success.count, 11);
});

test("an instance that runs is closed when its execution is over", async () => {
  const notes: string[] = [];
  await using repository = create(groups(CPU(2)), notes);
  await repository.manager.load("m", {});
  const asked = [ask(repository), ask(repository)];
  await reload(repository, groups(CPU(1)));
  assert.ok(!notes.includes("-m_0_1"));
  await Promise.all(asked);
  await sleep(1);
  assert.ok(notes.includes("-m_0_1"));
});

const RELOADED: readonly (readonly [string, (repository: TestRepository) => void])[] = [
  ["a file changed", (repository) => repository.write("m/1/weights", "other")],
  [
    "more than the instances changed",
    (repository) => repository.write("m/config.pbtxt", groups(CPU(2), "dynamic_batching {}")),
  ],
  [
    "the configuration file was only touched",
    (repository) => repository.write("m/config.pbtxt", `${groups(CPU(1))}# `),
  ],
];
for (const [title, change] of RELOADED) {
  test(`load() builds the version anew when ${title}`, async () => {
    const notes: string[] = [];
    await using repository = create(groups(CPU(1)), notes);
    const { manager, registry } = repository;
    await manager.load("m", {});
    const served = registry.lookUp("m", "");
    change(repository);
    await manager.load("m", {});
    assert.notEqual(registry.lookUp("m", ""), served);
    assert.equal(notes.filter((note) => note === "load").length, 2);
  });
}

test("an instance that was taken out is closed before its model, however soon that is unloaded", async () => {
  const notes: string[] = [];
  {
    await using repository = create(groups(CPU(2)), notes);
    await repository.manager.load("m", {});
    const asked = [ask(repository), ask(repository)];
    await reload(repository, groups(CPU(1)));
    await repository.manager.unload("m", false);
    await Promise.all(asked);
  }
  assert.deepEqual(notes.toSorted(), ["+m_0_0", "+m_0_1", "-m_0_0", "-m_0_1", "close", "load"]);
  assert.equal(notes.at(-1), "close");
});

test("instances that cannot be made leave the model as it was", async () => {
  const notes: string[] = [];
  await using repository = create(groups(CPU(1)), notes);
  const { manager, registry } = repository;
  await manager.load("m", {});
  const served = registry.lookUp("m", "");
  await assert.rejects(reload(repository, groups(`${CPU(2)}, ${CPU(1, "broken")}`)), /load failed for model 'm'/);
  assert.equal(registry.lookUp("m", ""), served);
  assert.equal(served.config.instance_group[0]?.count, 1);
  assert.deepEqual(notes, ["load", "+m_0_0", "+m_0_1", "-m_0_1"]);
  await ask(repository);
});

test("a version that is added, dropped or selected leaves the others loaded", async () => {
  const notes: string[] = [];
  const policy = (text: string): string => groups(CPU(1), `version_policy { ${text} }`);
  await using repository = create(policy("all {}"), notes);
  const { manager, registry } = repository;
  await manager.load("m", {});
  const first = registry.lookUp("m", "1");
  repository.write("m/2/weights", "w");
  await manager.load("m", {});
  assert.equal(registry.lookUp("m", "1"), first);
  const second = registry.lookUp("m", "2");
  await reload(repository, policy("specific { versions: [ 2 ] }"));
  assert.deepEqual(registry.ready("m"), [second]);
  assert.equal(notes.filter((note) => note === "load").length, 2);
});
