import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestRepository, identityConfig, type TestRepository } from "../../../../tests/fakes/model-repository.ts";
import { collect, fakeRequest, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import type { Backend } from "../../backend/backend.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../observe/log.ts";
import { modelKey, modelKeyText, nameOfKey, namespaceOfKey } from "../model-key.ts";
import type { ModelVersion } from "../model-version.ts";
import { RepositoryPoller } from "../source/repository-poller.ts";
import { labelsOf } from "./model-metrics.ts";

const SILENT = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_error: false });

/** Answers with its input, under a name that says which repository it is of. */
function tagged(tag: string): string {
  return identityConfig(`metric_tags [ { key: "tag" value: "${tag}" } ]`);
}

function ensemble(namespace = ""): string {
  return `platform: "ensemble"
max_batch_size: 4
input [ { name: "A" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "B" data_type: TYPE_INT32 dims: [ -1 ] } ]
ensemble_scheduling { step [ {
  model_name: "part" model_version: -1 ${namespace === "" ? "" : `model_namespace: "${namespace}"`}
  input_map { key: "INPUT0" value: "A" }
  output_map { key: "OUTPUT0" value: "B" }
} ] }`;
}

function create(files: Readonly<Record<string, string>>): TestRepository {
  const versions = Object.keys(files).map((path) => [path.replace("config.pbtxt", "1/.keep"), ""]);
  return createTestRepository({ ...files, ...Object.fromEntries(versions) }, [], undefined, { namespaces: ["a", "b"] });
}

function tagsOf(models: readonly ModelVersion[]): string[] {
  return models.map(({ config }) => config.metric_tags.tag ?? "");
}

/** How often the `part` of each repository has run. */
function partRuns({ registry, path }: TestRepository): number[] {
  return ["a", "b"].map((folder) => {
    const [model] = registry.ready(modelKey(`${path}/${folder}`, "part"));
    return model?.statistics.snapshot(model.name, model.version).execution_count ?? 0;
  });
}

async function ask({ registry }: TestRepository, model: string): Promise<void> {
  const [response] = await collect(registry.lookUp(model, "").infer(fakeRequest([int32("A", [1, 1], [3])])));
  assert.deepEqual(int32Values(response?.outputs[0]), [3]);
}

test("modelKey() can be taken apart again, with separators of the log inside", () => {
  const key = modelKey("/x::y", "m::n");
  assert.deepEqual([namespaceOfKey(key), nameOfKey(key), modelKeyText(key)], ["/x::y", "m::n", "/x::y::m::n"]);
  assert.deepEqual([modelKey("", "m"), namespaceOfKey("m"), nameOfKey("m")], ["m", "", "m"]);
});

test("loadAtStart() serves equal names of two repositories, the unique one by its plain name", async () => {
  await using repository = create({
    "a/shared/config.pbtxt": tagged("a"),
    "b/shared/config.pbtxt": tagged("b"),
    "b/only/config.pbtxt": tagged("only"),
  });
  const { manager, registry, path } = repository;
  assert.equal((await manager.loadAtStart(undefined)).size, 0);
  assert.deepEqual(tagsOf([...registry.allReady()]), ["a", "only", "b"]);
  assert.deepEqual(
    manager.index().map(({ name }) => name),
    ["shared", "only", "shared"],
  );
  assert.equal(labelsOf(registry.lookUp("only", "")).namespace, `${path}/b`);
  assert.throws(() => registry.lookUp("shared", ""), {
    code: "invalid_argument",
    message:
      "There are 2 identifiers of model 'shared' in global map, model namespace must be provided to resolve ambiguity.",
  });
  assert.throws(() => registry.lookUp("nosuch", ""), {
    code: "invalid_argument",
    message: "Request for unknown model: 'nosuch' is not found",
  });
});

test("an ensemble calls the model of its own repository first, and the one that its step names", async () => {
  await using repository = create({
    "a/part/config.pbtxt": tagged("a"),
    "b/part/config.pbtxt": tagged("b"),
    "a/own/config.pbtxt": ensemble(),
    "b/other/config.pbtxt": ensemble(),
  });
  repository.write("b/across/config.pbtxt", ensemble(`${repository.path}/a`));
  repository.write("b/across/1/.keep", "");
  assert.equal((await repository.manager.loadAtStart(undefined)).size, 0);
  await ask(repository, "own");
  assert.deepEqual(partRuns(repository), [1, 0]);
  await ask(repository, "other");
  assert.deepEqual(partRuns(repository), [1, 1]);
  await ask(repository, "across");
  assert.deepEqual(partRuns(repository), [2, 1]);
});

test("an ensemble finds a model that only another repository has, and none outside of the repositories", async () => {
  await using repository = create({
    "a/part/config.pbtxt": tagged("a"),
    "b/other/config.pbtxt": ensemble(),
    "b/astray/config.pbtxt": ensemble("/nowhere"),
  });
  const failures = await repository.manager.loadAtStart(undefined);
  assert.deepEqual([...failures.keys()].map(nameOfKey), ["astray"]);
  await ask(repository, "other");
  assert.deepEqual(partRuns(repository), [1, 0]);
});

test("load() and unload() by a name take the models of all repositories that have it", async () => {
  await using repository = create({ "a/m/config.pbtxt": tagged("a"), "b/m/config.pbtxt": tagged("b") });
  const { manager, registry } = repository;
  await manager.load("m", {});
  assert.deepEqual(tagsOf([...registry.allReady()]), ["a", "b"]);
  assert.throws(() => registry.lookUp("m", ""), /There are 2 identifiers of model 'm'/);
  repository.write("b/m/config.pbtxt", tagged("newer"));
  await manager.load("m", {});
  assert.deepEqual(tagsOf([...registry.allReady()]), ["a", "newer"]);
  repository.write("a/m/config.pbtxt", "bogus");
  await assert.rejects(manager.load("m", {}), /failed to load 'm', failed to poll/);
  const files = new Map([["1/model", new Uint8Array(1)]]);
  await assert.rejects(manager.load("m", { config: "{}", files }), /There are 2 identifiers of model 'm'/);
  assert.deepEqual(tagsOf([...registry.allReady()]), ["a", "newer"]);
  await manager.unload("m", false);
  assert.deepEqual([...registry.allReady()], []);
});

/** Two repositories, each with `part` and an ensemble that calls it, after the loads that were asked for. */
async function createPair(): Promise<TestRepository> {
  const repository = create({
    "a/part/config.pbtxt": tagged("a"),
    "b/part/config.pbtxt": tagged("b"),
    "a/own/config.pbtxt": ensemble(),
    "b/other/config.pbtxt": ensemble(),
  });
  return repository;
}

function bringPart(repository: TestRepository, folder: string): void {
  repository.write(`${folder}/part/config.pbtxt`, tagged(`${folder} again`));
  repository.write(`${folder}/part/1/.keep`, "");
}

/** Which repository's `part` answers the ensembles `own` of a and `other` of b. */
async function answering(repository: TestRepository): Promise<string> {
  const found: string[] = [];
  for (const model of ["own", "other"]) {
    const before = partRuns(repository);
    await ask(repository, model);
    found.push(["a", "b"].filter((_, i) => partRuns(repository)[i] !== before[i]).join("+"));
  }
  return found.join(" ");
}

test("polling links ensembles to the part that is left, and back to their own when it comes again", async () => {
  await using repository = await createPair();
  const { manager } = repository;
  await manager.loadAtStart(undefined);
  const poller = new RepositoryPoller(manager, SILENT);
  assert.equal(await answering(repository), "a b");
  for (const [gone, left] of [
    ["a", "b"],
    ["b", "a"],
  ] as const) {
    repository.remove(`${gone}/part`);
    await poller.poll();
    assert.equal(await answering(repository), `${left} ${left}`);
    assert.equal(tagsOf([repository.registry.lookUp("part", "")])[0]?.[0], left);
    bringPart(repository, gone);
    await poller.poll();
    assert.equal(await answering(repository), "a b");
    assert.throws(() => repository.registry.lookUp("part", ""), /ambiguity/);
  }
});

test("explicit loads link ensembles to the part that there is, and one of them brings a new part to all", async () => {
  await using repository = await createPair();
  const { manager } = repository;
  repository.remove("a/part");
  await manager.load("own", {});
  await manager.load("other", {});
  assert.equal(await answering(repository), "b b");
  bringPart(repository, "a");
  await manager.load("own", {}); // no file of its own has changed
  assert.equal(await answering(repository), "a b");
  await manager.unload("part", false);
  repository.remove("b/part");
  await manager.load("other", {});
  assert.equal(await answering(repository), "a a");
  bringPart(repository, "b");
  await manager.load("own", {}); // brings the parts of its steps' names from everywhere
  assert.equal(await answering(repository), "a b");
});

test("ensembles of equal names call the parts of their own repositories", async () => {
  const part = (namespace: string, model: string): string => ensemble().replace('"part"', `"${model}"`) + namespace;
  await using repository = create({
    "a/sum/config.pbtxt": tagged("a"),
    "b/difference/config.pbtxt": tagged("b"),
    "a/whole/config.pbtxt": part("", "sum"),
    "b/whole/config.pbtxt": part("", "difference"),
  });
  const { manager, registry, path } = repository;
  await manager.load("whole", {});
  assert.deepEqual(tagsOf([registry.lookUp("sum", ""), registry.lookUp("difference", "")]), ["a", "b"]);
  assert.throws(() => registry.lookUp("whole", ""), /ambiguity/);
  const whole = registry.lookUpKey(modelKey(`${path}/b`, "whole"), "");
  await collect(whole.infer(fakeRequest([int32("A", [1, 1], [3])])));
  const runs = ["sum", "difference"].map((name) => registry.lookUp(name, "").statistics.snapshot(name, "1"));
  assert.deepEqual(
    runs.map(({ execution_count }) => execution_count),
    [0, 1],
  );
});

test("an ensemble whose step fits two other repositories is out of service until one of them is left", async () => {
  const folders = ["a/part", "b/part", "c/whole"];
  const files = folders.flatMap((folder) => [
    [`${folder}/config.pbtxt`, folder === "c/whole" ? ensemble() : tagged(folder)],
    [`${folder}/1/.keep`, ""],
  ]);
  await using repository = createTestRepository(Object.fromEntries(files), [], undefined, {
    namespaces: ["a", "b", "c"],
  });
  const { manager } = repository;
  const text = `ensemble ${repository.path}/c::whole contains models that are not available or ambiguous: part`;
  const failures = await manager.loadAtStart(undefined);
  assert.deepEqual(
    [...failures.values()].map(({ message }) => message),
    [text],
  );
  await assert.rejects(manager.load("whole", {}), { code: "invalid_argument", message: new RegExp(text) });
  const poller = new RepositoryPoller(manager, SILENT);
  repository.remove("b/part");
  await poller.poll();
  await ask(repository, "whole");
  repository.write("b/part/config.pbtxt", tagged("again"));
  repository.write("b/part/1/.keep", "");
  await poller.poll();
  await assert.rejects(ask(repository, "whole"), /has no available versions/);
});

test("poll() follows models of equal names one by one; what went no longer makes the name ambiguous", async () => {
  await using repository = create({ "a/m/config.pbtxt": tagged("a"), "b/m/config.pbtxt": tagged("b") });
  const { manager, registry } = repository;
  await manager.loadAtStart(undefined);
  const poller = new RepositoryPoller(manager, SILENT);
  repository.write("b/m/config.pbtxt", tagged("newer"));
  await poller.poll();
  assert.deepEqual(tagsOf([...registry.allReady()]), ["a", "newer"]);
  repository.remove("a/m");
  await poller.poll();
  assert.deepEqual(tagsOf([registry.lookUp("m", "")]), ["newer"]);
});

/** Passes its requests on to the model `part`, as a model with code of its own does. */
function callingBackend(): Backend {
  return {
    name: "calling",
    load: async ({ models }) => ({
      createInstance: async ({ name }) => ({
        name,
        async execute({ requests }) {
          for (const request of requests) {
            models.signature("part");
            const inner = { ...request.request, modelName: "part", modelVersion: "" };
            for await (const { outputs } of models.infer(inner)) request.respond({ outputs, final: true });
          }
        },
        isReady: () => true,
        close: async () => undefined,
      }),
      close: async () => undefined,
    }),
    close: async () => undefined,
  };
}

test("a model with code of its own calls what lies in its repository first", async () => {
  const caller = identityConfig().replace('"identity"', '"calling"');
  const files = {
    "a/part/config.pbtxt": tagged("a"),
    "b/part/config.pbtxt": tagged("b"),
    "a/mine/config.pbtxt": caller,
    "b/theirs/config.pbtxt": caller,
  };
  const folders = ["mine", "theirs"].map((model, i) => [`${i === 0 ? "a" : "b"}/${model}/1/.keep`, ""]);
  const versions = { ...Object.fromEntries(folders), "a/part/1/.keep": "", "b/part/1/.keep": "" };
  await using repository = createTestRepository({ ...files, ...versions }, [callingBackend()], undefined, {
    namespaces: ["a", "b"],
  });
  await repository.manager.loadAtStart(undefined);
  const send = async (model: string): Promise<void> => {
    const request = fakeRequest([int32("INPUT0", [1, 1], [1])], { modelName: model });
    await collect(repository.registry.lookUp(model, "").infer(request));
  };
  await send("theirs");
  assert.deepEqual(partRuns(repository), [0, 1]);
  await send("mine");
  assert.deepEqual(partRuns(repository), [1, 1]);
  await repository.manager.unloadKey(modelKey(`${repository.path}/b`, "part"), false);
  await send("theirs"); // the only one that is left
  assert.deepEqual(partRuns(repository), [2, 0]);
});

test("isServed() knows a name that several repositories serve, and forgets what none serves", async () => {
  await using repository = create({ "a/m/config.pbtxt": tagged("a"), "b/m/config.pbtxt": tagged("b") });
  await repository.manager.loadAtStart(undefined);
  assert.deepEqual([repository.registry.isServed("m"), repository.registry.isServed("nosuch")], [true, false]);
  for (const folder of ["a", "b"])
    await repository.manager.unloadKey(modelKey(`${repository.path}/${folder}`, "m"), false);
  assert.equal(repository.registry.isServed("m"), false);
});
