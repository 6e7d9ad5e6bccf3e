import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { Reporter } from "@nereid/server/files/progress";
import { FakeHub } from "@nereid/server/hub/hub-server.test-support";
import { hubSettings } from "@nereid/server/hub/settings";
import { ModelStore } from "../store/model-store.ts";
import { resolveModel } from "./resolve-model.ts";
import type { ResolveContext } from "./resolved-model.ts";

const silent = { write: () => true };
const INDEX = JSON.stringify({ weight_map: { a: "model-1.safetensors", b: "model-2.safetensors" } });
const LARGE = 3 << 20;

let root = "";
let hub: FakeHub;
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "nereid-names-"));
  hub = await FakeHub.start();
});
afterEach(async () => {
  await hub[Symbol.asyncDispose]();
  rmSync(root, { recursive: true, force: true });
});

function context({ isOffline = false, refreshes = false, endpoint = hub.endpoint } = {}): ResolveContext {
  const settings = hubSettings({ HF_HOME: join(root, "hf"), HF_ENDPOINT: endpoint }, root);
  return {
    hub: { ...settings, isOffline },
    store: new ModelStore(join(root, "store")),
    env: {},
    reporter: new Reporter({ mode: "quiet", command: "test", stderr: silent, stdout: silent }),
    signal: new AbortController().signal,
    refreshes,
  };
}

function addFolder(): void {
  const files = ["config.json", "tokenizer.json", "model-1.safetensors", "model-2.safetensors", "pytorch_model.bin"];
  for (const path of [...files, "README.md", "onnx/model.onnx", "original/x.safetensors"]) hub.add(path, path);
  hub.add("model.safetensors.index.json", INDEX);
}

test("resolveModel() fetches what a folder needs, and finds it again without the network", async () => {
  addFolder();
  const { path, kind, name } = await resolveModel("org/tiny", context());
  assert.deepEqual([kind, name, path.endsWith(`snapshots/${hub.commit}`)], ["model", "org/tiny", true]);
  const fetched = hub.requests.filter(({ path: asked }) => asked.includes("/resolve/")).map(({ path: asked }) => asked);
  assert.deepEqual(fetched.map((asked) => asked.split("/").at(-1)).sort(), [
    "config.json",
    "model-1.safetensors",
    "model-2.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
  ]);
  const before = hub.requests.length;
  assert.equal((await resolveModel("hf.co/org/tiny", context())).path, path);
  assert.equal((await resolveModel("org/tiny", context({ isOffline: true }))).path, path);
  assert.equal(hub.requests.length, before);
});

test("resolveModel() asks the hub again when a shard is missing, and when the newest is wanted", async () => {
  addFolder();
  const { path } = await resolveModel("org/tiny", context());
  rmSync(join(path, "model-2.safetensors"));
  await assert.rejects(
    resolveModel("org/tiny", context({ isOffline: true })),
    /is not complete in .*hub, and the network/,
  );
  const before = hub.requests.length;
  await resolveModel("org/tiny", context());
  const between = hub.requests.length;
  assert.ok(between > before);
  assert.equal(readFileSync(join(path, "model-2.safetensors"), "utf8"), "model-2.safetensors");
  await resolveModel("org/tiny", context({ refreshes: true }));
  assert.ok(hub.requests.length > between);
});

test("resolveModel() fetches one GGUF file of several", async () => {
  for (const label of ["Q4_K_M", "Q8_0"]) hub.add(`tiny-${label}.gguf`, label, true);
  assert.match((await resolveModel("org/tiny", context())).path, /tiny-Q4_K_M\.gguf$/);
  assert.equal(hub.fetches("tiny-Q8_0.gguf").length, 0);
  const other = await resolveModel("hf.co/org/tiny:q8_0", context());
  assert.equal(readFileSync(other.path, "utf8"), "Q8_0");
  await assert.rejects(
    resolveModel("org/tiny:Q2_K", context()),
    /no GGUF file for 'Q2_K': it has tiny-Q4_K_M\.gguf, tiny-Q8_0/,
  );
});

test("resolveModel() says where it looked for a model that the hub does not have", async () => {
  await assert.rejects(resolveModel("org/none", context()), (error: Error & { fix?: string }) => {
    assert.match(error.message, /org\/none.* is neither here nor at http:\/\/127.* 404/s);
    assert.match(error.fix ?? "", /Check the name/);
    return true;
  });
});

test("resolveModel() fetches the file of a URL, and resumes it", async () => {
  const content = Buffer.alloc(LARGE, "GGUF");
  hub.add("m.gguf", content);
  const url = `${hub.endpoint}/org/tiny/resolve/${hub.commit}/m.gguf`;
  const elsewhere = context({ endpoint: "http://hub.test" });
  hub.fail("m.gguf", { kind: "status", status: 404 });
  await assert.rejects(resolveModel(url, elsewhere), /m\.gguf answers 404/);
  const stop = new AbortController();
  hub.bytesPerSecond = LARGE;
  setTimeout(() => stop.abort(new Error("stopped")), 300);
  await assert.rejects(resolveModel(url, { ...elsewhere, signal: stop.signal }));
  hub.bytesPerSecond = Number.POSITIVE_INFINITY;
  const { path } = await resolveModel(url, elsewhere);
  assert.ok(readFileSync(path).equals(content));
  const resumed = hub.fetches("m.gguf").at(-1);
  assert.match(resumed?.range ?? "", /^bytes=[1-9]\d+-$/);
  const before = hub.requests.length;
  assert.equal((await resolveModel(url, elsewhere)).path, path);
  assert.equal(hub.requests.length, before);
  await assert.rejects(
    resolveModel("http://other.test/m.gguf", { ...elsewhere, hub: { ...elsewhere.hub, isOffline: true } }),
    /the network may not be used/,
  );
});

test("resolveModel() tells a model from a repository, and says what a folder lacks", async () => {
  const folder = join(root, "models");
  mkdirSync(join(folder, "net", "1"), { recursive: true });
  assert.equal((await resolveModel(folder, context())).kind, "repository");
  writeFileSync(join(root, "notes.txt"), "");
  await assert.rejects(resolveModel(join(root, "notes.txt"), context()), /a single file ends in \.gguf/);
  await assert.rejects(resolveModel(join(folder, "net", "1"), context()), /holds no model: it has nothing in it/);
  await assert.rejects(resolveModel("./none", context()), /There is no file or folder \/.*none$/);
});

test("resolveModel() follows a second name, and keeps it as the model's id", async () => {
  addFolder();
  const at = context();
  await at.store.writeAliases(new Map([["mine", "org/tiny"]]));
  const { name, path } = await resolveModel("mine", at);
  assert.deepEqual([name, path], ["mine", (await resolveModel("org/tiny", at)).path]);
});
