/** Behaviour that Triton's own test of life cycles looks at, with models of ours. */
import assert from "node:assert/strict";
import { utimesSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createTestRepository, identityConfig, type TestRepository } from "../../../../tests/fakes/model-repository.ts";
import { collect, fakeRequest, int32 } from "../../../../tests/fakes/requests.ts";
import type { Backend } from "../../backend/backend.ts";
import { createIdentityBackend } from "../../backend/testing/identity.ts";
import { createRepeatBackend } from "../../backend/testing/repeat.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../observe/log.ts";
import { ResponseCache } from "../../scheduler/cache/response-cache.ts";
import { RepositoryPoller } from "./repository-poller.ts";

const SILENT = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_error: false, log_warning: false });

function statesOf({ manager }: TestRepository, model: string): string[] {
  return manager
    .index()
    .filter(({ name }) => name === model)
    .map(({ version, state, reason }) => [version, state, reason].filter(Boolean).join(" "));
}

function versionsOf({ registry }: TestRepository, model: string): string[] {
  return registry.ready(model).map(({ version }) => version);
}

/** Records the maximum number of concurrent loads, and fails a given number of times. */
function slowBackend(parts: { failures?: number; slowInstances?: boolean } = {}) {
  const identity = createIdentityBackend();
  let failuresLeft = parts.failures ?? 0;
  let running = 0;
  const seen = { most: 0, loads: 0 };
  const slowly = async <T>(action: () => Promise<T>): Promise<T> => {
    running += 1;
    seen.most = Math.max(seen.most, running);
    await new Promise((resolve) => setTimeout(resolve, 30));
    running -= 1;
    return action();
  };
  const load: Backend["load"] = async (source) => {
    seen.loads += 1;
    failuresLeft -= 1;
    if (failuresLeft >= 0) throw new Error("not yet");
    const model = await identity.load(source);
    if (parts.slowInstances !== true) return model;
    return { createInstance: (spec) => slowly(() => model.createInstance(spec)), close: () => model.close() };
  };
  const backend: Backend = {
    ...identity,
    name: "slow",
    load: (source) => (parts.slowInstances === true ? load(source) : slowly(() => load(source))),
  };
  return { backend, seen };
}

const REPEAT =
  'backend: "repeat" max_batch_size: 0 model_transaction_policy { decoupled: true } input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] }, { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] } ] output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] } ]';

const SLOW = identityConfig().replace('"identity"', '"slow"');

test("a configuration that is deleted leaves what auto-complete finds: the newest version alone", async () => {
  const files = {
    "m.identity/config.pbtxt": identityConfig("version_policy { all {} }"),
    "m.identity/1/.keep": "",
    "m.identity/3/.keep": "",
  };
  await using repository = createTestRepository(files);
  await repository.manager.loadAtStart(undefined);
  const poller = new RepositoryPoller(repository.manager, SILENT);
  assert.deepEqual(versionsOf(repository, "m.identity"), ["1", "3"]);
  repository.write("m.identity/config.pbtxt", identityConfig());
  await poller.poll();
  assert.deepEqual(versionsOf(repository, "m.identity"), ["3"]);
  assert.deepEqual(statesOf(repository, "m.identity"), ["1 UNAVAILABLE unloaded", "3 READY"]);
});

test("only what has changed of several versions is loaded anew; a file of the model itself concerns them all", async () => {
  const policy = (versions: string): string =>
    identityConfig(`version_policy { specific { versions: [ ${versions} ] } }`);
  const files = Object.fromEntries([1, 2, 3].map((version) => [`m/${version}/weights`, "w"]));
  await using repository = createTestRepository({ ...files, "m/config.pbtxt": policy("1, 2") });
  const { manager, registry } = repository;
  await manager.load("m", {});
  const served = (): unknown[] =>
    ["1", "2", "3", "4"].map((version) => registry.versions("m").get(Number(version))?.served);
  const before = served();
  repository.write("m/2/weights", "other weights");
  repository.write("m/4/weights", "new");
  repository.write("m/config.pbtxt", policy("1, 2, 3, 4"));
  await manager.load("m", {});
  const now = served();
  assert.deepEqual(versionsOf(repository, "m"), ["1", "2", "3", "4"]);
  assert.equal(now[0], before[0]);
  assert.notEqual(now[1], before[1]);
  repository.write("m/dependency.txt", "of all");
  await manager.load("m", {});
  for (const [i, version] of served().entries()) assert.notEqual(version, now[i]);
});

test("version folders that are none are ignored with a word in the log, and a model without any is refused", async () => {
  const files = {
    "m/config.pbtxt": identityConfig("version_policy { all {} }"),
    "m/1/.keep": "",
    "m/0/.keep": "",
    "m/01/.keep": "",
    "m/abc/.keep": "",
    "none/config.pbtxt": identityConfig(),
    "none/abc/.keep": "",
  };
  await using repository = createTestRepository(files);
  const failures = await repository.manager.loadAtStart(undefined);
  assert.deepEqual(versionsOf(repository, "m"), ["1"]);
  const log = repository.errors.join("");
  assert.match(log, /ignoring version directory '01' of model 'm': version directories must not begin with 0/);
  assert.match(log, /ignoring version directory 'abc' of model 'm': not a version number/);
  assert.match(
    failures.get("none")?.message ?? "",
    /at least one version must be available under the version policy of model 'none'/,
  );
});

test("one version that cannot be loaded takes the others of its load along, and the model's error names it", async () => {
  const failing: Backend = {
    ...createIdentityBackend(),
    name: "picky",
    load: (source) =>
      source.version === 2 ? Promise.reject(new Error("bad file")) : createIdentityBackend().load(source),
  };
  const config = identityConfig("version_policy { all {} }").replace('"identity"', '"picky"');
  await using repository = createTestRepository({ "m/config.pbtxt": config, "m/1/.keep": "", "m/2/.keep": "" }, [
    failing,
  ]);
  const failures = await repository.manager.loadAtStart(undefined);
  assert.match(
    failures.get("m")?.message ?? "",
    /load failed for model 'm': version 2 is at UNAVAILABLE state: Internal/,
  );
  assert.deepEqual(versionsOf(repository, "m"), []);
});

test("a model of two repositories is served by none, until only one has it", async () => {
  const files = {
    "a/m/config.pbtxt": identityConfig(),
    "a/m/1/.keep": "",
    "b/m/config.pbtxt": identityConfig(),
    "b/m/2/.keep": "",
    "b/n/config.pbtxt": identityConfig(),
    "b/n/1/.keep": "",
  };
  await using repository = createTestRepository(files, [], undefined, { folders: ["a", "b"] });
  const { manager } = repository;
  const failures = await manager.loadAtStart(undefined);
  assert.deepEqual(
    [...failures.values()].map(({ message }) => message),
    ["failed to poll model 'm': not unique across all model repositories"],
  );
  assert.deepEqual(versionsOf(repository, "n"), ["1"]);
  const twice = { name: "m", state: "UNAVAILABLE", reason: "model appears in two or more repositories" };
  assert.deepEqual(manager.index()[0], twice);
  assert.equal(repository.registry.isAllReady(), true); // it was never tried
  await assert.rejects(manager.load("m", {}), { message: "failed to load 'm', failed to poll from model repository" });
  repository.remove("a/m");
  await manager.load("m", {});
  assert.deepEqual(versionsOf(repository, "m"), ["2"]);
});

test("a served model that a second repository gets too is taken out by polling, and no other model is concerned", async () => {
  const files = {
    "a/m/config.pbtxt": identityConfig(),
    "a/m/1/.keep": "",
    "b/other/config.pbtxt": identityConfig(),
    "b/other/1/.keep": "",
  };
  await using repository = createTestRepository(files, [], undefined, { folders: ["a", "b"] });
  const { manager, registry } = repository;
  await manager.loadAtStart(undefined);
  const poller = new RepositoryPoller(manager, SILENT);
  const served = registry.lookUp("m", "");
  repository.write("b/m/config.pbtxt", identityConfig());
  repository.write("b/m/3/.keep", "");
  await assert.rejects(manager.load("m", {}), { message: "failed to load 'm', failed to poll from model repository" });
  assert.equal(registry.lookUp("m", ""), served); // a request that fails takes nothing away
  repository.write("b/other/2/.keep", "");
  await poller.poll();
  assert.deepEqual([versionsOf(repository, "m"), versionsOf(repository, "other")], [[], ["2"]]);
  assert.equal(registry.isAllReady(), true);
  repository.remove("a/m");
  await poller.poll();
  assert.deepEqual(versionsOf(repository, "m"), ["3"]);
});

test("a custom configuration that comes or goes changes the model", async () => {
  const files = { "m/config.pbtxt": identityConfig(), "m/1/.keep": "", "m/2/.keep": "" };
  await using repository = createTestRepository(files, [], undefined, { configName: "custom" });
  await repository.manager.loadAtStart(undefined);
  const poller = new RepositoryPoller(repository.manager, SILENT);
  assert.deepEqual(versionsOf(repository, "m"), ["2"]);
  repository.write("m/configs/custom.pbtxt", identityConfig("version_policy { specific { versions: [ 1 ] } }"));
  repository.write("m/configs/unused.pbtxt", "nobody reads this");
  await poller.poll();
  assert.deepEqual(versionsOf(repository, "m"), ["1"]);
  repository.remove("m/configs/custom.pbtxt");
  await poller.poll();
  assert.deepEqual(versionsOf(repository, "m"), ["2"]);
});

test("a failed load is tried again as often as was allowed, and not once more", async () => {
  for (const [failures, loads, isServed] of [
    [2, 3, true],
    [3, 3, false],
  ] as const) {
    const { backend, seen } = slowBackend({ failures });
    const files = { "m/config.pbtxt": SLOW, "m/1/.keep": "" };
    await using repository = createTestRepository(files, [backend], undefined, { loadRetries: 2 });
    const failed = await repository.manager.loadAtStart(undefined);
    assert.deepEqual([seen.loads, failed.size === 0], [loads, isServed]);
  }
});

test("models that do not need each other load at the same time, and so do the instances of one", async () => {
  const models = slowBackend();
  const files = { "a/config.pbtxt": SLOW, "a/1/.keep": "", "b/config.pbtxt": SLOW, "b/1/.keep": "" };
  await using repository = createTestRepository(files, [models.backend]);
  await Promise.all([repository.manager.load("a", {}), repository.manager.load("b", {})]);
  assert.equal(models.seen.most, 2);
  const instances = slowBackend({ slowInstances: true });
  const many = { "m/config.pbtxt": `${SLOW}instance_group { count: 4 kind: KIND_CPU }`, "m/1/.keep": "" };
  await using other = createTestRepository(many, [instances.backend]);
  await other.manager.load("m", {});
  assert.equal(instances.seen.most, 4);
});

test("loads and unloads of one model at the same time end in the state of the last one", async () => {
  const { backend } = slowBackend();
  await using repository = createTestRepository({ "m/config.pbtxt": SLOW, "m/1/.keep": "" }, [backend]);
  const { manager } = repository;
  for (let round = 0; round < 5; round += 1) {
    const actions = Array.from({ length: 6 }, (_, i) =>
      i % 2 === 0 ? manager.load("m", {}) : manager.unload("m", false),
    );
    await Promise.all(actions);
  }
  await manager.load("m", {});
  assert.deepEqual(versionsOf(repository, "m"), ["1"]);
  await manager.unload("m", false);
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.deepEqual(statesOf(repository, "m"), ["1 UNAVAILABLE unloaded"]);
});

test("a model comes back with another backend, and the end of the old one may take its time", async () => {
  let isClosed = false;
  let release = (): void => undefined;
  const closing = new Promise<void>((resolve) => {
    release = resolve;
  });
  const lingering: Backend = {
    ...createIdentityBackend(),
    name: "lingering",
    async load(source) {
      const model = await createIdentityBackend().load(source);
      return {
        createInstance: (spec) => model.createInstance(spec),
        async close() {
          await closing;
          isClosed = true;
        },
      };
    },
  };
  const files = { "m/config.pbtxt": identityConfig().replace('"identity"', '"lingering"'), "m/1/.keep": "" };
  await using repository = createTestRepository(files, [lingering]);
  await repository.manager.load("m", {});
  repository.write("m/config.pbtxt", identityConfig());
  await repository.manager.load("m", {});
  assert.deepEqual([repository.registry.lookUp("m", "").config.backend, isClosed], ["identity", false]);
  const ended = repository.manager.close();
  release();
  await ended;
  assert.equal(isClosed, true);
});

test("a file that is only touched counts as a change", async () => {
  await using repository = createTestRepository({ "m/config.pbtxt": identityConfig(), "m/1/weights": "w" });
  await repository.manager.load("m", {});
  const before = repository.registry.lookUp("m", "");
  utimesSync(join(repository.path, "m/1/weights"), 1, 1);
  await repository.manager.load("m", {});
  assert.notEqual(repository.registry.lookUp("m", ""), before);
});

test("an ensemble that streams, itself or by a model that it calls, cannot be cached", async () => {
  const ensemble = `platform: "ensemble" max_batch_size: 0 response_cache { enable: true }
    input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] }, { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] } ]
    output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
    ensemble_scheduling { step [ { model_name: "stream" model_version: -1
      input_map [ { key: "IN" value: "IN" }, { key: "DELAY" value: "DELAY" }, { key: "WAIT" value: "WAIT" } ]
      output_map { key: "OUT" value: "OUT" } } ] }`;
  const files = {
    "stream/config.pbtxt": REPEAT,
    "stream/1/.keep": "",
    "all/config.pbtxt": ensemble,
    "all/1/.keep": "",
  };
  await using repository = createTestRepository(files, [createRepeatBackend()], new ResponseCache(1 << 20));
  const failures = await repository.manager.loadAtStart(undefined);
  assert.deepEqual([...failures.keys()], ["all"]);
  assert.match(
    failures.get("all")?.message ?? "",
    /Response Cache does not currently support model all with 'decoupled'/,
  );
});

const CACHED = "response_cache { enable: true }";
const ENSEMBLES: readonly (readonly [string, string, string, number, readonly number[], readonly number[]])[] = [
  ["the ensemble's", CACHED, "", 1 << 20, [1, 1], [0, 0]],
  ["that of both", CACHED, CACHED, 1 << 20, [1, 1], [0, 1]],
  ["that of the model it calls", "", CACHED, 1 << 20, [0, 0], [1, 1]],
  ["one that is too small", CACHED, "", 64, [0, 2], [0, 0]],
];
for (const [title, outer, inner, bytes, ofEnsemble, ofModel] of ENSEMBLES) {
  test(`two equal requests to an ensemble meet ${title} cache`, async () => {
    const ensemble = `platform: "ensemble" max_batch_size: 4 ${outer}
      input [ { name: "A" data_type: TYPE_INT32 dims: [ -1 ] } ] output [ { name: "B" data_type: TYPE_INT32 dims: [ -1 ] } ]
      ensemble_scheduling { step [ { model_name: "part" model_version: -1
        input_map { key: "INPUT0" value: "A" } output_map { key: "OUTPUT0" value: "B" } } ] }`;
    const files = {
      "part/config.pbtxt": identityConfig(inner),
      "part/1/.keep": "",
      "whole/config.pbtxt": ensemble,
      "whole/1/.keep": "",
    };
    await using repository = createTestRepository(files, [], new ResponseCache(bytes));
    await repository.manager.loadAtStart(undefined);
    for (let i = 0; i < 2; i += 1) {
      await collect(repository.registry.lookUp("whole", "").infer(fakeRequest([int32("A", [1, 1], [7])])));
    }
    const counts = (model: string): number[] => {
      const { cache_hit, cache_miss } = repository.registry
        .lookUp(model, "")
        .statistics.snapshot(model, "1").inference_stats;
      return [cache_hit.count, cache_miss.count];
    };
    assert.deepEqual([counts("whole"), counts("part")], [ofEnsemble, ofModel]);
  });
}

test("the parameters of a request reach the models behind an ensemble", async () => {
  const seen: unknown[] = [];
  const watching: Backend = {
    ...createIdentityBackend(),
    name: "watching",
    async load(source) {
      const model = await createIdentityBackend().load(source);
      return {
        async createInstance(spec) {
          const instance = await model.createInstance(spec);
          return {
            name: instance.name,
            execute(batch) {
              for (const { request } of batch.requests) seen.push(Object.fromEntries(request.parameters));
              return instance.execute(batch);
            },
            isReady: () => true,
            close: () => instance.close(),
          };
        },
        close: () => model.close(),
      };
    },
  };
  const whole = `platform: "ensemble" max_batch_size: 4
    input [ { name: "A" data_type: TYPE_INT32 dims: [ -1 ] } ] output [ { name: "B" data_type: TYPE_INT32 dims: [ -1 ] } ]
    ensemble_scheduling { step [ { model_name: "part" model_version: -1
      input_map { key: "INPUT0" value: "A" } output_map { key: "OUTPUT0" value: "B" } } ] }`;
  const part = identityConfig().replace('"identity"', '"watching"');
  const files = { "part/config.pbtxt": part, "part/1/.keep": "", "whole/config.pbtxt": whole, "whole/1/.keep": "" };
  await using repository = createTestRepository(files, [watching]);
  await repository.manager.loadAtStart(undefined);
  const parameters = new Map<string, string | boolean>([
    ["key1", "value1"],
    ["key2", true],
  ]);
  const request = fakeRequest([int32("A", [1, 1], [1])], { parameters });
  await collect(repository.registry.lookUp("whole", "").infer(request));
  assert.deepEqual(seen, [{ key1: "value1", key2: true }]);
});
