import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { contents, liveFolders, openTestStore, type TestStore } from "@nereid/object-stores/open-stores.test-support";
import { createTestRepository, identityConfig, type TestRepository } from "../../../../tests/fakes/model-repository.ts";
import { externalTensor, model, node, ONNX_TYPE } from "../../../../tests/fakes/onnx-writer.ts";
import { collect, fakeRequest, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import { createOnnxBackends } from "../../backend/onnx/onnx-backend.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../observe/log.ts";
import { remoteLocation } from "./repository-location.ts";
import { RepositoryPoller } from "./repository-poller.ts";

const SILENT = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_error: false });

/** Models in a bucket and the manager that serves them. `isKept`: the user has named a folder for what is fetched. */
async function serve(
  t: TestContext,
  isWatched: boolean,
  isKept = true,
): Promise<TestStore & { served: TestRepository }> {
  const store = await openTestStore(t, "s3");
  const { NEREID_MODEL_CACHE: folder, ...unnamed } = store.env;
  const before = process.env.TMPDIR;
  if (!isKept) process.env.TMPDIR = folder;
  const opened = await store.open({ isWatched, env: isKept ? store.env : unnamed });
  if (before === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = before;
  const served = createTestRepository({}, [], undefined, { places: [remoteLocation(opened)] });
  t.after(() => served[Symbol.asyncDispose]());
  return { ...store, served };
}

function put({ server }: TestStore, model: string, version: string, config = identityConfig()): void {
  server.put(`repo/${model}/config.pbtxt`, config);
  server.put(`repo/${model}/${version}/`, "");
}

async function ask({ served }: { served: TestRepository }, model: string, version = ""): Promise<number[]> {
  const request = fakeRequest([int32("INPUT0", [1, 2], [4, 5])]);
  const [response] = await collect(served.registry.lookUp(model, version).infer(request));
  return int32Values(response?.outputs[0]);
}

test("models of a bucket are loaded at the start, and polled for what comes, changes and goes", async (t) => {
  const all = await serve(t, true);
  const { served, cacheFolder, server } = all;
  put(all, "steady", "1");
  put(all, "going", "1");
  assert.equal((await served.manager.loadAtStart(undefined)).size, 0);
  assert.deepEqual(await ask(all, "steady"), [4, 5]);
  const poller = new RepositoryPoller(served.manager, SILENT);
  const steady = served.registry.lookUp("steady", "");
  put(all, "arriving", "1");
  server.remove("repo/going/config.pbtxt");
  server.remove("repo/going/1/");
  await poller.poll();
  assert.equal(served.registry.ready("arriving").length, 1);
  assert.equal(served.registry.ready("going").length, 0);
  assert.equal(served.registry.lookUp("steady", ""), steady);
  put(all, "arriving", "2", identityConfig("# changed"));
  await poller.poll();
  assert.equal(served.registry.lookUp("arriving", "").version, "2");
  assert.deepEqual(await ask(all, "arriving"), [4, 5]);
  await served.manager.close();
  assert.deepEqual(liveFolders(cacheFolder), []);
});

test("a store that cannot be reached, or gives broken models, leaves what is served as it is", async (t) => {
  const all = await serve(t, true);
  const { served, server, cacheFolder } = all;
  put(all, "m", "1");
  await served.manager.loadAtStart(undefined);
  const poller = new RepositoryPoller(served.manager, SILENT);
  const before = served.registry.lookUp("m", "");
  server.fail("list", { kind: "status", status: 403 });
  await poller.poll();
  put(all, "m", "1", "bogus");
  await poller.poll();
  server.put("repo/m/config.pbtxt", identityConfig("# mended"));
  server.fail("repo/m/config.pbtxt", { kind: "status", status: 403 });
  await poller.poll();
  assert.equal(served.registry.lookUp("m", ""), before);
  assert.deepEqual(await ask(all, "m"), [4, 5]);
  assert.equal(liveFolders(cacheFolder).length, 1);
  server.put("repo/m/config.pbtxt", identityConfig("response_cache { enable: false }"));
  await poller.poll();
  assert.notEqual(served.registry.lookUp("m", ""), before);
});

test("a bucket that cannot be reached at the start is told", async (t) => {
  const { served, server } = await serve(t, false);
  server.fail("list", { kind: "status", status: 404 });
  await assert.rejects(served.manager.loadAtStart([]), { code: "internal", message: /answers 404.*Check the name/ });
});

test("load() and unload() fetch and remove one model, and see what is new in the bucket", async (t) => {
  const all = await serve(t, false, false);
  const { served, server } = all;
  const folder = `${all.cacheFolder}/nereid-models-${process.getuid?.()}`;
  await served.manager.loadAtStart([]);
  put(all, "late", "1");
  put(all, "other", "1");
  await served.manager.load("late", {});
  assert.deepEqual(await ask(all, "late"), [4, 5]);
  assert.equal(server.gets("repo/other/config.pbtxt").length, 0);
  assert.equal(liveFolders(folder).length, 1);
  const before = served.registry.lookUp("late", "");
  await served.manager.load("late", {});
  assert.equal(served.registry.lookUp("late", ""), before);
  assert.equal(server.gets("repo/late/config.pbtxt").length, 1);
  await assert.rejects(served.manager.load("nosuch", {}), { message: /failed to load 'nosuch'/ });
  await served.manager.unload("late", false);
  await served.manager.close();
  assert.deepEqual([...liveFolders(folder), ...contents(folder)], []);
});

test("the index sees in time what is new in the bucket", async (t) => {
  const all = await serve(t, false);
  await all.served.manager.loadAtStart([]);
  put(all, "late", "1");
  const { manager } = all.served;
  assert.deepEqual(manager.index(), []);
  t.mock.method(performance, "now", () => Number.MAX_SAFE_INTEGER);
  assert.deepEqual(manager.index(), []);
  for (let look = 0; look < 100 && manager.index().length === 0; look += 1) await sleep(20);
  assert.deepEqual(manager.index(), [{ name: "late" }]);
});

test("a version that stays through a reload keeps the files that it was loaded from", async (t) => {
  const all = await serve(t, false);
  const { served, cacheFolder, server } = all;
  const config = identityConfig("version_policy { all {} }");
  put(all, "m", "1", config);
  await served.manager.loadAtStart(undefined);
  const first = served.registry.lookUp("m", "1");
  server.put("repo/m/2/", "");
  await served.manager.load("m", {});
  assert.equal(served.registry.lookUp("m", "1"), first);
  assert.equal(served.registry.lookUp("m", "").version, "2");
  assert.equal(liveFolders(cacheFolder).length, 2);
  put(all, "m", "2", identityConfig('version_policy { all {} } parameters { key: "a" value { string_value: "b" } }'));
  await served.manager.load("m", {});
  await served.manager.close();
  assert.deepEqual(liveFolders(cacheFolder), []);
});

test("instances of a model in a bucket change in place", async (t) => {
  const all = await serve(t, false);
  put(all, "m", "1", identityConfig("instance_group { count: 1 kind: KIND_CPU }"));
  await all.served.manager.loadAtStart(undefined);
  const before = all.served.registry.lookUp("m", "");
  all.server.put("repo/m/config.pbtxt", identityConfig("instance_group { count: 3 kind: KIND_CPU }"));
  await all.served.manager.load("m", {});
  assert.equal(all.served.registry.lookUp("m", ""), before);
  assert.equal(before.instances.length, 3);
  assert.equal(liveFolders(all.cacheFolder).length, 1); // the one that it was loaded from
});

test("an ensemble of a bucket brings the models that it calls", async (t) => {
  const all = await serve(t, false);
  const ensemble = `platform: "ensemble" max_batch_size: 4
    input [ { name: "A" data_type: TYPE_INT32 dims: [ -1 ] } ] output [ { name: "B" data_type: TYPE_INT32 dims: [ -1 ] } ]
    ensemble_scheduling { step [ { model_name: "part" model_version: -1
      input_map { key: "INPUT0" value: "A" } output_map { key: "OUTPUT0" value: "B" } } ] }`;
  put(all, "all", "1", ensemble);
  put(all, "part", "1");
  const failures = await all.served.manager.loadAtStart(["all"]);
  assert.equal(failures.size, 0);
  assert.equal(all.served.registry.ready("part").length, 1);
  await all.served.manager.unload("all", true);
  await all.served.manager.close();
  assert.deepEqual(liveFolders(all.cacheFolder), []);
});

test("an ONNX model of a bucket finds its weights in a file beside it", async (t) => {
  const store = await openTestStore(t, "s3");
  const { FLOAT } = ONNX_TYPE;
  const onnx = model({
    nodes: [node("Add", ["X", "w"], ["Y"])],
    inputs: [["X", FLOAT, [2]]],
    outputs: [["Y", FLOAT, [2]]],
    initializers: [externalTensor("w", FLOAT, [2], { location: "weights.bin" })],
  });
  store.server.put("repo/m/1/model.onnx", Buffer.from(onnx));
  store.server.put("repo/m/1/weights.bin", Buffer.from(new Float32Array([10, 20]).buffer));
  const places = [remoteLocation(await store.open())];
  await using served = createTestRepository({}, [...createOnnxBackends()], undefined, { places });
  assert.deepEqual([...(await served.manager.loadAtStart(undefined)).values()], []);
  const input = {
    name: "X",
    datatype: "FP32",
    shape: [2],
    data: new Uint8Array(new Float32Array([1, 2]).buffer),
  } as const;
  const [response] = await collect(served.registry.lookUp("m", "").infer(fakeRequest([input])));
  const bytes = Buffer.from(response?.outputs[0]?.data ?? []);
  assert.deepEqual([bytes.readFloatLE(0), bytes.readFloatLE(4)], [11, 22]);
});

test("files that come with a load request need nothing of the bucket; the next load goes back to it", async (t) => {
  const all = await serve(t, false);
  put(all, "m", "1");
  await all.served.manager.loadAtStart(undefined);
  const config = JSON.stringify({
    backend: "identity",
    max_batch_size: 2,
    input: [{ name: "INPUT0", data_type: "TYPE_INT32", dims: [-1] }],
    output: [{ name: "OUTPUT0", data_type: "TYPE_INT32", dims: [-1] }],
  });
  await all.served.manager.load("m", { config, files: new Map([["7/weights", Buffer.from("x")]]) });
  assert.equal(all.served.registry.lookUp("m", "").version, "7");
  await all.served.manager.load("m", {});
  assert.equal(all.served.registry.lookUp("m", "").version, "1");
});
