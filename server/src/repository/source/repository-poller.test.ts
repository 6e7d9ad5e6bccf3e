import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestRepository, identityConfig } from "../../../../tests/fakes/model-repository.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../observe/log.ts";
import { RepositoryPoller } from "./repository-poller.ts";

const SILENT = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_error: false });

test("poll() loads what arrives, reloads what changed, unloads what went and leaves the rest alone", async () => {
  await using repository = createTestRepository({
    "steady/config.pbtxt": identityConfig(),
    "steady/1/.keep": "",
    "going/config.pbtxt": identityConfig(),
    "going/1/.keep": "",
  });
  const { manager, registry } = repository;
  await manager.loadAtStart(undefined);
  const poller = new RepositoryPoller(manager, SILENT);
  const steady = registry.lookUp("steady", "");
  repository.write("arriving/config.pbtxt", identityConfig());
  repository.write("arriving/1/.keep", "");
  repository.remove("going");
  await poller.poll();
  assert.equal(registry.ready("arriving").length, 1);
  assert.equal(registry.ready("going").length, 0);
  assert.equal(registry.lookUp("steady", ""), steady);
  repository.write("arriving/2/.keep", "");
  await poller.poll();
  assert.equal(registry.lookUp("arriving", "").version, "2");
});

test("poll() keeps the old version when a changed model fails, and tries again only when its files change", async () => {
  await using repository = createTestRepository({ "m/config.pbtxt": identityConfig(), "m/1/.keep": "" });
  const { manager, registry } = repository;
  await manager.loadAtStart(undefined);
  const poller = new RepositoryPoller(manager, SILENT);
  const served = registry.lookUp("m", "");
  repository.write("m/config.pbtxt", "bogus");
  await poller.poll();
  const numErrors = repository.errors.length;
  await poller.poll();
  assert.equal(repository.errors.length, numErrors);
  assert.equal(registry.lookUp("m", ""), served);
  repository.write("m/config.pbtxt", identityConfig("dynamic_batching {}"));
  await poller.poll();
  assert.notEqual(registry.lookUp("m", ""), served);
});

test("poll() lets others have their turn while it looks at many models", async () => {
  const looked: number[] = [];
  let turns = 0;
  let isOver = false;
  const keys = Array.from({ length: 40 }, (_, i) => `m${i}`);
  const repository = {
    refresh: async () => undefined,
    keys: () => keys,
    fingerprint(key: string) {
      const endMs = performance.now() + 1;
      while (performance.now() < endMs) looked.push(key.length); // a folder with many files
      return "as ever";
    },
    loaded: () => new Map(),
    isAmbiguous: () => false,
    loadKey: async () => undefined,
    unloadKey: async () => undefined,
  };
  const poller = new RepositoryPoller(repository, SILENT);
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await poller.poll();
  isOver = true;
  assert.ok(looked.length > 0);
  assert.ok(turns >= 10, `others had ${turns} turns`);
});
