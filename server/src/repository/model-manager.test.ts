import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { createTestRepository, identityConfig } from "../../../tests/fakes/model-repository.ts";
import { collect, fakeRequest, int32, int32Values } from "../../../tests/fakes/requests.ts";
import type { Backend } from "../backend/backend.ts";
import { createIdentityBackend } from "../backend/testing/identity.ts";
import { ServerError } from "../core/server-error.ts";
import type { ModelRegistry } from "./registry.ts";

const ENSEMBLE = `platform: "ensemble"
max_batch_size: 4
input [ { name: "A" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "B" data_type: TYPE_INT32 dims: [ -1 ] } ]
ensemble_scheduling { step [ {
  model_name: "part" model_version: -1
  input_map { key: "INPUT0" value: "A" }
  output_map { key: "OUTPUT0" value: "B" }
} ] }`;

async function ask(registry: ModelRegistry, model: string, input = "INPUT0", version = ""): Promise<number[]> {
  const [response] = await collect(registry.lookUp(model, version).infer(fakeRequest([int32(input, [1, 2], [4, 5])])));
  return int32Values(response?.outputs[0]);
}

/** Executions wait until the test opens the gate. */
function gatedBackend(): Backend & { open(): void } {
  let open = (): void => undefined;
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  return {
    name: "gated",
    open: () => open(),
    load: async () => ({
      createInstance: async ({ name }) => ({
        name,
        async execute(batch) {
          await gate;
          for (const request of batch.requests) request.respond({ outputs: [], final: true });
        },
        isReady: () => true,
        close: async () => undefined,
      }),
      close: async () => undefined,
    }),
    close: async () => undefined,
  };
}

test("loadAtStart() loads every model, composing models before their ensemble", async () => {
  await using repository = createTestRepository({
    "all/config.pbtxt": ENSEMBLE,
    "all/1/.keep": "",
    "part/config.pbtxt": identityConfig(),
    "part/1/.keep": "",
  });
  assert.equal((await repository.manager.loadAtStart(undefined)).size, 0);
  assert.deepEqual(await ask(repository.registry, "all", "A"), [4, 5]);
  assert.equal(repository.registry.isAllReady(), true);
});

test("loadAtStart() reports what failed and serves the rest", async () => {
  await using repository = createTestRepository({
    "good/config.pbtxt": identityConfig(),
    "good/1/.keep": "",
    "typo/config.pbtxt": "bogus: 1",
    "typo/1/.keep": "",
    "stranger/config.pbtxt": identityConfig().replace("identity", "nosuch"),
    "stranger/1/.keep": "",
    "orphan/config.pbtxt": ENSEMBLE,
    "orphan/1/.keep": "",
    "empty/config.pbtxt": identityConfig(),
  });
  const failures = await repository.manager.loadAtStart(undefined);
  assert.deepEqual([...failures.keys()].sort(), ["empty", "orphan", "stranger", "typo"]);
  assert.deepEqual(await ask(repository.registry, "good"), [4, 5]);
  assert.equal(repository.registry.isAllReady(), false);
  assert.match(
    failures.get("orphan")?.message ?? "",
    /ensemble orphan contains models that are not available or ambiguous: part/,
  );
  assert.match(failures.get("empty")?.message ?? "", /at least one version must be available/);
  assert.match(failures.get("stranger")?.message ?? "", /unable to find backend library for backend 'nosuch'/);
  assert.match(repository.errors.join(""), /config\.pbtxt:1:1/);
  const rows = repository.manager.index();
  assert.deepEqual(
    rows.find(({ name }) => name === "typo"),
    { name: "typo" },
  );
  assert.equal(rows.find(({ name }) => name === "stranger")?.state, "UNAVAILABLE");
});

test("load() brings a changed model up beside the old one and ends what the old one had accepted", async () => {
  const gated = gatedBackend();
  const config = identityConfig().replace("identity", "gated");
  await using repository = createTestRepository({ "m/config.pbtxt": config, "m/1/.keep": "" }, [gated]);
  const { manager, registry } = repository;
  await manager.load("m", {});
  const old = registry.lookUp("m", "");
  const accepted = collect(old.infer(fakeRequest([int32("INPUT0", [1, 1], [1])])));
  repository.write("m/config.pbtxt", identityConfig());
  await manager.load("m", {});
  assert.notEqual(registry.lookUp("m", ""), old);
  assert.deepEqual(await ask(registry, "m"), [4, 5]);
  gated.open();
  assert.equal((await accepted).length, 1);
});

test("close() also ends what is being loaded, and refuses what waits behind it", async () => {
  const identity = createIdentityBackend();
  const seen: string[] = [];
  let goOn = (): void => undefined;
  const isLoading = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const slow: Backend = {
    ...identity,
    name: "slow",
    async load(source) {
      seen.push("load");
      await isLoading;
      const model = await identity.load(source);
      const close = async (): Promise<void> => void seen.push("close");
      return { createInstance: (spec) => model.createInstance(spec), close };
    },
  };
  const files = { "m/config.pbtxt": identityConfig().replace('"identity"', '"slow"'), "m/1/.keep": "" };
  await using repository = createTestRepository(files, [slow]);
  const [load, next] = [repository.manager.load("m", {}), repository.manager.load("m", {})];
  const refused = assert.rejects(next, { code: "unavailable", message: "Server exiting" });
  while (seen.length === 0) await setImmediate();
  const closed = repository.manager.close();
  goOn();
  await Promise.all([load, closed, refused]);
  assert.deepEqual(seen, ["load", "close"]);
});

test("load() does nothing when no file has changed", async () => {
  await using repository = createTestRepository({ "m/config.pbtxt": identityConfig(), "m/1/.keep": "" });
  await repository.manager.load("m", {});
  const served = repository.registry.lookUp("m", "");
  await repository.manager.load("m", {});
  assert.equal(repository.registry.lookUp("m", ""), served);
});

test("load() leaves the old version serving when the new one fails", async () => {
  await using repository = createTestRepository({ "m/config.pbtxt": identityConfig(), "m/1/.keep": "" });
  const { manager, registry } = repository;
  await manager.load("m", {});
  repository.write("m/config.pbtxt", identityConfig().replace("identity", "nosuch"));
  await assert.rejects(manager.load("m", {}), {
    code: "invalid_argument",
    message:
      "load failed for model 'm': version 1 is at UNAVAILABLE state: Invalid argument: unable to find backend library for backend 'nosuch', try specifying runtime on the model configuration.;\n",
  });
  assert.deepEqual(await ask(registry, "m"), [4, 5]);
  repository.write("m/config.pbtxt", "bogus");
  for (const options of [{}, { config: "{" }]) {
    await assert.rejects(manager.load("m", options), {
      code: "internal",
      message: "failed to load 'm', failed to poll from model repository",
    });
  }
  assert.deepEqual(await ask(registry, "m"), [4, 5]);
});

test("load() keeps a configuration that came with a request while no file changes, and goes back to the file that does", async () => {
  await using repository = createTestRepository({ "m/config.pbtxt": identityConfig(), "m/1/.keep": "" });
  const { manager, registry } = repository;
  const config = JSON.stringify({
    backend: "identity",
    max_batch_size: 2,
    input: [{ name: "INPUT0", data_type: "TYPE_INT32", dims: [-1] }],
    output: [{ name: "OUTPUT0", data_type: "TYPE_INT32", dims: [-1] }],
  });
  await manager.load("m", { config });
  assert.equal(registry.lookUp("m", "").config.max_batch_size, 2);
  const overridden = registry.lookUp("m", "");
  await manager.load("m", {});
  assert.equal(registry.lookUp("m", ""), overridden);
  repository.write("m/config.pbtxt", identityConfig("# touched"));
  await manager.load("m", {});
  assert.equal(registry.lookUp("m", "").config.max_batch_size, 4);
  await manager.load("m", { config });
  await manager.unload("m", false);
  await manager.load("m", {});
  assert.equal(registry.lookUp("m", "").config.max_batch_size, 4);
});

test("load() serves a model whose files came with the request, and refuses paths that leave its folder", async () => {
  await using repository = createTestRepository({ "m/config.pbtxt": identityConfig(), "m/1/.keep": "" });
  const { manager, registry } = repository;
  const config = JSON.stringify({
    backend: "identity",
    input: [{ name: "INPUT0", data_type: "TYPE_INT32", dims: [-1, -1] }],
    output: [{ name: "OUTPUT0", data_type: "TYPE_INT32", dims: [-1, -1] }],
  });
  await manager.load("sent", { config, files: new Map([["1/data", new Uint8Array(1)]]) });
  assert.deepEqual(await ask(registry, "sent"), [4, 5]);
  for (const path of ["../evil", "/etc/evil", "1/../../evil", "", "a\0b"]) {
    const files = new Map([[path, new Uint8Array(1)]]);
    await assert.rejects(manager.load("sent2", { config, files }), ServerError, path);
  }
});

test("load() refuses names that are no names", async () => {
  await using repository = createTestRepository({ "m/config.pbtxt": identityConfig(), "m/1/.keep": "" });
  for (const name of ["", "..", ".", "a/b", "a\\b", "\0"]) {
    await assert.rejects(repository.manager.load(name, {}), { code: "invalid_argument" }, JSON.stringify(name));
  }
  for (const [name, message] of [
    [" \t", "Model name cannot be empty. Please enter a valid name to deploy."],
    [" ..", "invalid model name ' ..', model name must not contain path traversal characters"],
  ] as const) {
    await assert.rejects(repository.manager.load(name, {}), { code: "invalid_argument", message });
  }
  await assert.rejects(repository.manager.load("nope", {}), { code: "internal" });
});

test("load() of an ensemble loads what it calls; unload_dependents takes that along again", async () => {
  await using repository = createTestRepository({
    "all/config.pbtxt": ENSEMBLE,
    "all/1/.keep": "",
    "part/config.pbtxt": identityConfig(),
    "part/1/.keep": "",
  });
  const { manager, registry } = repository;
  await manager.load("all", {});
  assert.deepEqual(await ask(registry, "all", "A"), [4, 5]);
  await manager.unload("all", true);
  assert.throws(() => registry.lookUp("part", ""), { code: "not_found", message: /has no available versions/ });
});

test("unload() of a composing model takes its ensembles out of service", async () => {
  await using repository = createTestRepository({
    "all/config.pbtxt": ENSEMBLE,
    "all/1/.keep": "",
    "part/config.pbtxt": identityConfig(),
    "part/1/.keep": "",
  });
  const { manager, registry } = repository;
  await manager.loadAtStart(undefined);
  await manager.unload("part", false);
  assert.throws(() => registry.lookUp("all", ""), { code: "not_found" });
  assert.equal(registry.isAllReady(), true);
  await manager.unload("nope", false);
});

test("a version policy decides which versions serve, and the highest answers by default", async () => {
  await using repository = createTestRepository({
    "m/config.pbtxt": identityConfig("version_policy { specific { versions: [ 1, 3 ] } }"),
    "m/1/.keep": "",
    "m/2/.keep": "",
    "m/3/.keep": "",
    "m/007/.keep": "",
    "m/notes/.keep": "",
  });
  await repository.manager.loadAtStart(undefined);
  const { registry } = repository;
  assert.deepEqual(
    registry.ready("m").map(({ version }) => version),
    ["1", "3"],
  );
  assert.equal(registry.lookUp("m", "").version, "3");
  assert.throws(() => registry.lookUp("m", "2"), { message: "Request for unknown model: 'm' version 2 is not found" });
  assert.throws(() => registry.lookUp("m", "abc"), {
    message: /failed to get model version from specified version string 'abc'/,
  });
  assert.equal(repository.errors.filter((line) => line.includes("ignoring version directory")).length, 2);
});

test("warm-up runs on every instance before a version is ready, and its failure fails the load", async () => {
  const sample = (dims: string): string => `model_warmup [ {
    name: "w" batch_size: 2 count: 3
    inputs { key: "INPUT0" value { data_type: TYPE_INT32 dims: [ ${dims} ] random_data: true } }
  } ]
  instance_group [ { kind: KIND_CPU count: 2 } ]`;
  await using repository = createTestRepository({
    "good/config.pbtxt": identityConfig(sample("5")),
    "good/1/.keep": "",
    "bad/config.pbtxt": identityConfig(sample("-1")),
    "bad/1/.keep": "",
  });
  const failures = await repository.manager.loadAtStart(undefined);
  assert.deepEqual([...failures.keys()], ["bad"]);
  assert.match(
    failures.get("bad")?.message ?? "",
    /failed to run warmup sample 'w': input 'INPUT0' must have all of its dims/,
  );
  const { inference_count, execution_count } = repository.registry.lookUp("good", "").statistics.snapshot("good", "1");
  assert.deepEqual([inference_count, execution_count], [12, 6]);
});

test("a model whose instances are all passive is refused, because its requests would wait for ever", async () => {
  await using repository = createTestRepository({
    "m/config.pbtxt": identityConfig("instance_group [ { kind: KIND_CPU passive: true } ]"),
    "m/1/.keep": "",
  });
  const failures = await repository.manager.loadAtStart(undefined);
  assert.match(failures.get("m")?.message ?? "", /has passive instance groups only/);
});

test("register() adds a repository whose model has another name than its folder; unregister() takes it away", async (t) => {
  await using repository = createTestRepository({});
  const { manager, registry } = repository;
  const path = mkdtempSync(join(tmpdir(), "nereid-registered-"));
  t.after(() => rmSync(path, { recursive: true }));
  for (const folder of ["model", "beside"]) {
    mkdirSync(join(path, folder, "1"), { recursive: true });
    writeFileSync(join(path, folder, "config.pbtxt"), `name: "${folder}"\n${identityConfig()}`);
  }
  manager.repositories.register(path, { folder: "model", name: "m.tar.gz" });
  assert.deepEqual(manager.keys(), ["beside", "m.tar.gz"]);
  for (const [again, mapping] of [
    [path, { folder: "beside", name: "other" }],
    [join(path, "model"), { folder: "1", name: "m.tar.gz" }],
  ] as const) {
    assert.throws(() => manager.repositories.register(again, mapping), { code: "already_exists" });
  }
  assert.throws(
    () => manager.repositories.register(join(path, "none"), { folder: "1", name: "x" }),
    /repository not found/,
  );
  await manager.load("m.tar.gz", {});
  assert.deepEqual(await ask(registry, "m.tar.gz"), [4, 5]);
  await manager.load("beside", {});
  await assert.rejects(manager.load("model", {}), /failed to load 'model'/);
  assert.deepEqual(
    manager.index().map(({ name, state }) => [name, state]),
    [
      ["beside", "READY"],
      ["m.tar.gz", "READY"],
    ],
  );
  await manager.unload("m.tar.gz", true);
  manager.repositories.unregister(path);
  assert.deepEqual(manager.index(), []);
  assert.throws(() => manager.repositories.unregister(path), /failed to unregister '.*', repository not found/);
});
