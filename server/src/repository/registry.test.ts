import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestRepository, identityConfig } from "../../../tests/fakes/model-repository.ts";

test("a model without a version to serve is not ready, with the reason in the index, until it has one or is unloaded", async () => {
  const only2 = identityConfig("version_policy { specific { versions: [ 2 ] } }");
  const files = { "m/config.pbtxt": only2, "m/1/.keep": "", "bare/config.pbtxt": identityConfig() };
  await using repository = createTestRepository(files);
  const { manager, registry } = repository;
  const row = (name: string): unknown => manager.index().find((each) => each.name === name);
  const lacking = (name: string) => ({
    name,
    state: "UNAVAILABLE",
    reason: `Invalid argument: at least one version must be available under the version policy of model '${name}'`,
  });
  await manager.loadAtStart(undefined);
  assert.deepEqual([row("m"), row("bare"), registry.isAllReady()], [lacking("m"), lacking("bare"), false]);
  const refusal = { code: "not_found", message: "Request for unknown model: 'bare' has no available versions" };
  assert.throws(() => registry.lookUp("bare", ""), refusal);
  repository.write("m/2/.keep", "");
  await manager.load("m", {});
  assert.deepEqual(
    [registry.indexRows("m").map(({ version, state }) => `${version} ${state}`), registry.isAllReady()],
    [["2 READY"], false],
  );
  repository.remove("m/2");
  await assert.rejects(manager.load("m", {}), /at least one version must be available/);
  assert.deepEqual(
    registry.indexRows("m").map(({ version, state }) => `${version} ${state}`),
    ["2 READY"],
  ); // goes on serving what it has
  await manager.unload("bare", false);
  assert.deepEqual([row("bare"), registry.isAllReady()], [{ name: "bare" }, true]);
});
