import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestRepository, identityConfig, type TestRepository } from "../../../../tests/fakes/model-repository.ts";
import { collect, fakeRequest, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../observe/log.ts";
import { ResponseCache } from "../../scheduler/cache/response-cache.ts";
import { RepositoryPoller } from "./repository-poller.ts";

const SILENT = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_error: false });

/** From `A` to `B` by one model. */
function ensemble(part: string, input = "INPUT0", output = "OUTPUT0", extra = ""): string {
  return `platform: "ensemble"
max_batch_size: 4
input [ { name: "A" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "B" data_type: TYPE_INT32 dims: [ -1 ] } ]
ensemble_scheduling { step [ {
  model_name: "${part}" model_version: -1
  input_map { key: "${input}" value: "A" }
  output_map { key: "${output}" value: "B" }
} ] }
${extra}`;
}

const FILES = {
  "part/config.pbtxt": identityConfig(),
  "part/1/.keep": "",
  "whole/config.pbtxt": ensemble("part"),
  "whole/1/.keep": "",
  "outer/config.pbtxt": ensemble("whole", "A", "B"),
  "outer/1/.keep": "",
};
const OTHER_TYPE = identityConfig().replaceAll("TYPE_INT32", "TYPE_FP32");

async function ask({ registry }: TestRepository, model: string): Promise<number[]> {
  const input = model === "part" ? "INPUT0" : "A";
  const [response] = await collect(registry.lookUp(model, "").infer(fakeRequest([int32(input, [1, 2], [4, 5])])));
  return int32Values(response?.outputs[0]);
}

function stateOf({ manager }: TestRepository, model: string): string {
  const row = manager.index().find(({ name }) => name === model);
  return [row?.state, row?.reason].filter(Boolean).join(" ");
}

/** Retired versions have ended. */
async function settled(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 50));
}

test("a model that comes back with another type takes the ensembles that call it out, with the reason, until it fits", async () => {
  await using repository = createTestRepository(FILES);
  const { manager, errors } = repository;
  await manager.loadAtStart(undefined);
  assert.deepEqual(await ask(repository, "outer"), [4, 5]);
  repository.write("part/config.pbtxt", OTHER_TYPE);
  await manager.load("part", {});
  await settled();
  assert.equal(stateOf(repository, "part"), "READY");
  const reason =
    "in ensemble whole, ensemble tensor A: inconsistent data type: TYPE_INT32 is inferred from model whole while TYPE_FP32 is inferred from model part";
  for (const model of ["whole", "outer"]) {
    assert.equal(stateOf(repository, model), `UNAVAILABLE Invalid argument: ${reason}`);
    await assert.rejects(ask(repository, model), {
      message: `Request for unknown model: '${model}' has no available versions`,
    });
  }
  assert.match(errors.join(""), /ensemble 'whole' does not fit the models that it calls any more: in ensemble whole/);
  assert.equal(repository.registry.isAllReady(), false);
  repository.write("part/config.pbtxt", identityConfig("# as it was"));
  await manager.load("part", {});
  assert.deepEqual(await ask(repository, "outer"), [4, 5]);
  assert.equal(repository.registry.isAllReady(), true);
});

test("a model that comes back as it was leaves its ensembles alone; one that differs and fits has them built anew", async () => {
  await using repository = createTestRepository(FILES);
  const { manager, registry } = repository;
  await manager.loadAtStart(undefined);
  const served = () => ["whole", "outer"].map((model) => registry.lookUp(model, ""));
  const before = served();
  repository.write("part/config.pbtxt", identityConfig("# the same"));
  await manager.load("part", {});
  assert.deepEqual(served(), before);
  repository.write("part/config.pbtxt", identityConfig().replace("max_batch_size: 4", "max_batch_size: 8"));
  await manager.load("part", {});
  assert.notEqual(served()[0], before[0]);
  assert.equal(served()[1], before[1]); // what it calls is as before, seen from it
  assert.deepEqual(await ask(repository, "outer"), [4, 5]);
  repository.write("part/config.pbtxt", identityConfig().replace("max_batch_size: 4", "max_batch_size: 2"));
  await manager.load("part", {});
  await settled();
  assert.match(stateOf(repository, "whole"), /contains model part which only allows maximum batch size to be 2/);
});

test("an ensemble whose model was unloaded is there again with it, unless it was unloaded itself", async () => {
  await using repository = createTestRepository(FILES);
  const { manager } = repository;
  await manager.loadAtStart(undefined);
  await manager.unload("part", false);
  await settled();
  assert.deepEqual(
    ["whole", "outer"].map((model) => stateOf(repository, model)),
    ["UNAVAILABLE unloaded", "UNAVAILABLE unloaded"],
  );
  await manager.load("part", {});
  assert.deepEqual(await ask(repository, "outer"), [4, 5]);
  await manager.unload("part", false);
  await manager.unload("outer", false);
  await manager.load("part", {});
  assert.deepEqual(await ask(repository, "whole"), [4, 5]);
  assert.equal(repository.registry.ready("outer").length, 0);
  await manager.load("outer", {});
  assert.deepEqual(await ask(repository, "outer"), [4, 5]);
});

test("polling loads an ensemble whose model comes later, at the start or any time", async () => {
  const files = { ...FILES, "part/config.pbtxt": "bogus" };
  await using repository = createTestRepository(files);
  const { manager, registry } = repository;
  const failures = await manager.loadAtStart(undefined);
  assert.deepEqual([...failures.keys()].sort(), ["outer", "part", "whole"]);
  const poller = new RepositoryPoller(manager, SILENT);
  repository.write("part/config.pbtxt", identityConfig("# mended"));
  await poller.poll();
  assert.deepEqual(await ask(repository, "outer"), [4, 5]);
  repository.write("early/config.pbtxt", ensemble("late"));
  repository.write("early/1/.keep", "");
  await poller.poll();
  await poller.poll();
  assert.equal(registry.ready("early").length, 0);
  repository.write("late/config.pbtxt", identityConfig());
  repository.write("late/1/.keep", "");
  await poller.poll();
  assert.deepEqual(await ask(repository, "early"), [4, 5]);
});

test("an ensemble that a client could not load is not loaded behind its back", async () => {
  const { "part/config.pbtxt": config, "part/1/.keep": keep, ...ensembles } = FILES;
  await using repository = createTestRepository(ensembles);
  await assert.rejects(repository.manager.load("whole", {}), {
    code: "invalid_argument",
    message:
      "load failed for model 'whole': ensemble whole contains models that are not available or ambiguous: part\n",
  });
  repository.write("part/config.pbtxt", config.replace('"identity"', '"nosuch"'));
  repository.write("part/1/.keep", keep);
  await assert.rejects(
    repository.manager.load("outer", {}),
    /^ServerError: load failed for model 'outer': ensemble 'outer' depends on 'whole' which has no loaded version\. Model 'whole' loading failed with error: ensemble 'whole' depends on 'part' which has no loaded version\. Model 'part' loading failed with error: version 1 is at UNAVAILABLE state: /,
  );
  repository.write("part/config.pbtxt", config);
  repository.write("part/1/.keep", keep);
  await repository.manager.load("part", {});
  assert.equal(repository.registry.ready("whole").length, 0);
});

test("an ensemble that was taken out for a reason is unloaded like any other", async () => {
  await using repository = createTestRepository(FILES);
  const { manager, registry } = repository;
  await manager.loadAtStart(undefined);
  repository.write("part/config.pbtxt", OTHER_TYPE);
  await manager.load("part", {});
  await settled();
  await manager.unload("outer", false);
  await manager.unload("whole", false);
  assert.equal(stateOf(repository, "whole"), "UNAVAILABLE unloaded");
  assert.equal(registry.isAllReady(), true);
});

test("loads of an ensemble and of what it calls at the same time end, and leave all of it served", async () => {
  await using repository = createTestRepository(FILES);
  const { manager } = repository;
  for (let round = 0; round < 20; round += 1) {
    repository.write("part/config.pbtxt", identityConfig(`parameters { key: "r" value { string_value: "${round}" } }`));
    const changed = ensemble("part").replace("max_batch_size: 4", `max_batch_size: ${1 + (round % 4)}`);
    repository.write("whole/config.pbtxt", changed);
    await Promise.allSettled([manager.load("outer", {}), manager.load("part", {}), manager.load("whole", {})]);
    await Promise.allSettled([manager.unload("part", false), manager.load("outer", {})]);
  }
  repository.write("whole/config.pbtxt", ensemble("part"));
  await manager.load("whole", {});
  await manager.load("outer", {});
  assert.deepEqual(await ask(repository, "outer"), [4, 5]);
});

test("an ensemble's cached answers are forgotten when a model that it calls is reloaded", async () => {
  const cache = new ResponseCache(1 << 20);
  const files = {
    ...FILES,
    "whole/config.pbtxt": ensemble("part", "INPUT0", "OUTPUT0", "response_cache { enable: true }"),
  };
  await using repository = createTestRepository(files, [], cache);
  await repository.manager.loadAtStart(undefined);
  await ask(repository, "whole");
  await ask(repository, "whole");
  assert.equal(cache.statistics().numHits, 1);
  repository.write("part/config.pbtxt", identityConfig("dynamic_batching {}"));
  await repository.manager.load("part", {});
  await ask(repository, "whole");
  assert.equal(cache.statistics().numHits, 1);
});

test("load() of an ensemble brings what it calls up to date, and leaves what has not changed", async () => {
  await using repository = createTestRepository(FILES);
  const { manager, registry } = repository;
  await manager.load("outer", {});
  const served = () => ["part", "whole", "outer"].map((model) => registry.lookUp(model, ""));
  const before = served();
  await manager.load("outer", {});
  assert.deepEqual(served(), before);
  repository.write("part/1/weights", "newer");
  await manager.load("outer", {});
  assert.notEqual(served()[0], before[0]);
  repository.write("part/config.pbtxt", "bogus");
  await manager.load("outer", {}); // what was loaded keeps serving
  assert.deepEqual(await ask(repository, "outer"), [4, 5]);
  assert.match(repository.errors.join(""), /'part' keeps serving as it was/);
});

test("an ensemble with a limit says so when it is loaded", async () => {
  const lines: string[] = [];
  const limited = ensemble("part").replace("ensemble_scheduling {", "ensemble_scheduling { max_inflight_requests: 3");
  await using repository = createTestRepository({ ...FILES, "whole/config.pbtxt": limited }, [], undefined, {
    onVerbose: (line) => void lines.push(line),
  });
  await repository.manager.load("outer", {});
  const found = lines.flatMap(
    (line) => /Ensemble model '.*' configured with max_inflight_requests: \d+/.exec(line) ?? [],
  );
  assert.deepEqual(found, ["Ensemble model 'whole' configured with max_inflight_requests: 3"]);
});

test("load() refuses ensembles that call each other", async () => {
  const files = { ...FILES, "whole/config.pbtxt": ensemble("outer", "A", "B") };
  await using repository = createTestRepository(files);
  await assert.rejects(repository.manager.load("outer", {}), {
    message: /circular dependency between ensembles: outer -> \.\.\. -> whole -> outer \(outer -> whole -> outer\)/,
  });
});

test("an ensemble goes with the version that its step names, and comes back with it", async () => {
  const only = (versions: string): string =>
    identityConfig(`version_policy { specific { versions: [ ${versions} ] } }`);
  const files = {
    ...FILES,
    "part/3/.keep": "",
    "part/config.pbtxt": only("1, 3"),
    "whole/config.pbtxt": ensemble("part").replace("model_version: -1", "model_version: 3"),
  };
  await using repository = createTestRepository(files);
  const { manager } = repository;
  assert.equal((await manager.loadAtStart(undefined)).size, 0);
  repository.write("part/config.pbtxt", only("1"));
  await manager.load("part", {});
  await settled();
  const reason = "ensemble 'whole' depends on 'part' whose required version 3 is not loaded.";
  assert.equal(stateOf(repository, "whole"), `UNAVAILABLE Invalid argument: ${reason}`);
  await assert.rejects(manager.load("whole", {}), { message: `load failed for model 'whole': ${reason}\n` });
  repository.write("part/config.pbtxt", only("3, 1"));
  await manager.load("part", {});
  assert.deepEqual(await ask(repository, "outer"), [4, 5]);
});

test("an ensemble reshapes what clients send and what its models answer", async () => {
  const tensor = (name: string, dims: string, shape: string): string =>
    `[ { name: "${name}" data_type: TYPE_INT32 dims: [ ${dims} ] reshape { shape: [ ${shape} ] } } ]`;
  const reshaping = (batch: number): string =>
    ensemble("part")
      .replace("max_batch_size: 4", `max_batch_size: ${batch}`)
      .replace(/^input.*$/m, `input ${tensor("A", "2, 3", "6")}`)
      .replace(/^output.*$/m, `output ${tensor("B", "3, 2, 1", "6")}`);
  const files = { ...FILES, "whole/config.pbtxt": reshaping(4) };
  await using repository = createTestRepository(files);
  const { manager, registry } = repository;
  const shapeFor = async (shape: number[]): Promise<readonly number[] | undefined> => {
    const values = Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => i);
    const [response] = await collect(registry.lookUp("whole", "").infer(fakeRequest([int32("A", shape, values)])));
    assert.deepEqual(int32Values(response?.outputs[0]), values);
    return response?.outputs[0]?.shape;
  };
  await manager.load("whole", {});
  assert.deepEqual(await shapeFor([2, 2, 3]), [2, 3, 2, 1]);
  repository.write("whole/config.pbtxt", reshaping(0));
  await manager.load("whole", {});
  assert.deepEqual(await shapeFor([2, 3]), [3, 2, 1]);
});
