import assert from "node:assert/strict";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { FakeHub } from "@nereid/server/hub/hub-server.test-support";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "@nereid/server/observe/log";
import type { ArrangeModel } from "@nereid/server/repository/source/remote-repository";
import { openRepository } from "../open-repository.ts";
import { filesIn, liveFolders, temporaryFolder } from "../open-stores.test-support.ts";

const SILENT = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_info: false, log_warning: false });

async function open(t: TestContext, hub: FakeHub, address: string, arrangeModel: ArrangeModel = async () => undefined) {
  const cacheFolder = temporaryFolder(t);
  const env = { NEREID_MODEL_CACHE: cacheFolder, HF_ENDPOINT: hub.endpoint, HF_HOME: cacheFolder };
  const repository = await openRepository({
    url: address,
    env: hub.token === undefined ? env : { ...env, HF_TOKEN: hub.token },
    log: SILENT,
    isWatched: true,
    firstPauseMs: 1,
    arrangeModel,
  });
  t.after(() => repository.close());
  await repository.refresh();
  return { repository, cacheFolder };
}

async function hubWith(t: TestContext, files: Readonly<Record<string, string>>): Promise<FakeHub> {
  const hub = await FakeHub.start();
  t.after(() => hub[Symbol.asyncDispose]());
  for (const [path, content] of Object.entries(files)) hub.add(path, content, path.endsWith(".onnx"));
  return hub;
}

test("hf:// with folders of models is a model repository, checked by the hub's hashes, with its token", async (t) => {
  const hub = await hubWith(t, { "m/config.pbtxt": "config", "m/1/model.onnx": "weights", "README.md": "" });
  hub.token = "the-token";
  hub.fail("m/1/model.onnx", { kind: "wrong bytes" }, { kind: "cut", afterBytes: 3 });
  const { repository, cacheFolder } = await open(t, hub, "hf://org/tiny");
  assert.deepEqual(repository.models(), ["m"]);
  const local = await repository.localize("m");
  assert.deepEqual(filesIn(local.repositoryPath), { "m/1/model.onnx": "weights", "m/config.pbtxt": "config" });
  assert.deepEqual(
    hub.fetches("m/1/model.onnx").map(({ range }) => range),
    [undefined, undefined, "bytes=3-"],
  );
  assert.ok(hub.requests.every(({ origin, authorization }) => origin === "hub" || authorization === undefined));
  await local.release();
  assert.deepEqual(liveFolders(cacheFolder), []);
});

test("a commit that comes later changes the fingerprint of what it has changed", async (t) => {
  const hub = await hubWith(t, { "a/config.pbtxt": "one", "b/config.pbtxt": "one" });
  const { repository } = await open(t, hub, "hf://org/tiny@main");
  const before = ["a", "b"].map((model) => repository.fingerprint(model));
  hub.add("a/config.pbtxt", "two");
  hub.commit = "f".repeat(40);
  await repository.refresh();
  assert.notEqual(repository.fingerprint("a"), before[0]);
  assert.equal(repository.fingerprint("b"), before[1]);
  assert.equal(filesIn((await repository.localize("a")).repositoryPath)["a/config.pbtxt"], "two");
});

test("hf:// of a language model is brought as it is, and what serves it is arranged around it", async (t) => {
  const hub = await hubWith(t, {
    "config.json": "{}",
    "model.safetensors": "w",
    "pytorch_model.bin": "twice",
    "sub/vocab": "v",
  });
  const seen: Record<string, string>[] = [];
  const { repository, cacheFolder } = await open(t, hub, "hf://org/tiny", async (modelFolder, folder) => {
    seen.push(filesIn(modelFolder));
    for (const model of ["first", "second"]) {
      mkdirSync(join(folder, model), { recursive: true });
      writeFileSync(join(folder, model, "config.pbtxt"), modelFolder);
    }
  });
  assert.deepEqual(seen, [{ "config.json": "{}", "model.safetensors": "w", "sub/vocab": "v" }]);
  assert.deepEqual(repository.models(), ["first", "second"]);
  const local = await repository.localize("second");
  assert.deepEqual(readdirSync(local.repositoryPath).sort(), ["first", "second"]);
  await local.release();
  await repository.close();
  assert.deepEqual(liveFolders(cacheFolder), []);
});

test("what cannot be arranged leaves nothing behind", async (t) => {
  const hub = await hubWith(t, { "config.json": "{}" });
  const refuse: ArrangeModel = () => Promise.reject(new Error("no decoder"));
  await assert.rejects(open(t, hub, "hf://org/tiny", refuse), /no decoder/);
});
