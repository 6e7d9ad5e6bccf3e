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

test("load() ends when the instances that it takes away have ended their executions and are closed", async () => {
  const notes: string[] = [];
  await using repository = create(groups(CPU(2)), notes);
  await repository.manager.load("m", {});
  const asked = [ask(repository), ask(repository)].map((one) => one.then(() => notes.push("answer")));
  await reload(repository, groups(CPU(1)));
  assert.equal(notes.at(-1), "-m_0_1");
  assert.ok(notes.includes("answer"));
  await Promise.all(asked);
});

test("instances stay whose settings stay, whatever their names, their number and the order of their groups", async () => {
  const gpu = (name: string): string => `{ name: "${name}" kind: KIND_MODEL count: 1 }`;
  const notes: string[] = [];
  await using repository = create(groups(`${CPU(3, "cpu")}, ${gpu("other")}`), notes);
  const { manager, registry } = repository;
  await manager.load("m", {});
  const served = registry.lookUp("m", "");
  assert.equal(notes.splice(0).length, 5);
  for (const same of [
    `${gpu("x")}, ${CPU(1, "a")}, ${CPU(2, "b")}`,
    `${CPU(1)}, ${CPU(1, "b")}, ${CPU(1, "c")}, ${gpu("x")}`,
    `${CPU(3)}, ${gpu("other")}`,
  ]) {
    await reload(repository, groups(same));
    assert.deepEqual([registry.lookUp("m", ""), notes], [served, []]);
    await ask(repository);
  }
  await reload(repository, groups(`${CPU(3).replace("}", 'host_policy: "p" }')}, ${gpu("other")}`));
  assert.equal(notes.filter((note) => note.startsWith("+")).length, 3);
  assert.equal(notes.filter((note) => note.startsWith("-")).length, 3);
});

test("load() with a configuration changes instances in place, and so does the load that goes back to the file", async () => {
  const notes: string[] = [];
  await using repository = create(groups(CPU(1)), notes);
  const { manager, registry } = repository;
  await manager.load("m", {});
  const served = registry.lookUp("m", "");
  const config = { ...served.config, instance_group: [{ name: "m_0", kind: "KIND_CPU", count: 3 }] };
  await manager.load("m", { config: JSON.stringify(config) });
  assert.deepEqual(notes.splice(0), ["load", "+m_0_0", "+m_0_1", "+m_0_2"]);
  assert.deepEqual([registry.lookUp("m", ""), served.config.instance_group[0]?.count], [served, 3]);
  repository.write("m/config.pbtxt", `${groups(CPU(0))}# `); // a count of 0 is 1
  await manager.load("m", {});
  assert.deepEqual(notes.splice(0).toSorted(), ["-m_0_1", "-m_0_2"]);
  assert.equal(registry.lookUp("m", ""), served);
  await manager.load("m", { config: JSON.stringify({ ...config, dynamic_batching: {} }) });
  assert.notEqual(registry.lookUp("m", ""), served);
});

for (const [title, extra] of [
  ["a model", ""],
  ["a model with sequences", "sequence_batching {}"],
] as const) {
  test(`load() leaves ${title} alone whose configuration file was only touched`, async () => {
    const notes: string[] = [];
    await using repository = create(groups(CPU(2), extra), notes);
    const { manager, registry } = repository;
    await manager.load("m", {});
    const served = registry.lookUp("m", "");
    await reload(repository, `${groups(CPU(2), extra)}# touched`);
    assert.equal(registry.lookUp("m", ""), served);
    assert.equal(notes.length, 3);
  });
}

const RELOADED: readonly (readonly [string, (repository: TestRepository) => void])[] = [
  ["a file changed", (repository) => repository.write("m/1/weights", "other")],
  [
    "more than the instances changed",
    (repository) => repository.write("m/config.pbtxt", groups(CPU(2), "dynamic_batching {}")),
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
