import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { createTestRepository, identityConfig, type TestRepository } from "../../../../tests/fakes/model-repository.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../observe/log.ts";
import { PlaceRefresh } from "./place-refresh.ts";
import { localLocation, type RepositoryLocation, StoreFailure } from "./repository-location.ts";
import { RepositoryPoller } from "./repository-poller.ts";

const SILENT = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_error: false });
const NOTHING = async (): Promise<void> => undefined;

function remote(refresh: () => Promise<void>, models: readonly string[] = []): RepositoryLocation {
  return {
    path: "s3://away/models",
    isRemote: true,
    refresh,
    models: () => models,
    has: (model) => models.includes(model),
    fingerprint: () => "1",
    bring: () => Promise.reject(new StoreFailure("unavailable", "it stalls")),
    close: NOTHING,
  };
}

/** A folder with the model `near` beside a store. */
function serve(t: TestContext, store: RepositoryLocation): TestRepository {
  const folder = createTestRepository({ "near/config.pbtxt": identityConfig(), "near/1/weights": "x" });
  const served = createTestRepository({}, [], undefined, { places: [store, localLocation(folder.path)] });
  t.after(async () => {
    await served[Symbol.asyncDispose]();
    await folder[Symbol.asyncDispose]();
  });
  return served;
}

test("a store that never answers holds up neither loads of other repositories nor polls of them", async (t) => {
  const served = serve(
    t,
    remote(() => new Promise(() => undefined)),
  );
  await served.manager.load("near", {});
  await new RepositoryPoller(served.manager, SILENT).poll();
  assert.equal(served.registry.ready("near").length, 1);
});

test("a model that no reachable repository has is told with the reason of the one that is away", async (t) => {
  const served = serve(
    t,
    remote(() => Promise.reject(new StoreFailure("unavailable", "connect ECONNREFUSED"))),
  );
  await served.manager.load("near", {});
  await assert.rejects(served.manager.load("far", {}), {
    code: "unavailable",
    message: /^failed to load 'far', failed to poll from model repository: .*connect ECONNREFUSED$/,
  });
});

test("a model whose store was away is tried again at the next poll, though no file has changed", async (t) => {
  let numBrought = 0;
  const store = remote(NOTHING, ["far"]);
  const bring = (): Promise<never> => {
    numBrought += 1;
    return store.bring("far") as Promise<never>;
  };
  const served = serve(t, { ...store, bring });
  const poller = new RepositoryPoller(served.manager, SILENT);
  await poller.poll();
  await poller.poll();
  assert.equal(numBrought, 2);
});

test("callers at the same time share one refresh, and a failure is forgotten with the next success", async () => {
  let numRefreshes = 0;
  let isAway = true;
  const told: string[] = [];
  const place = remote(async () => {
    numRefreshes += 1;
    if (isAway) throw new StoreFailure("unavailable", "away");
  });
  const refresh = new PlaceRefresh(place, ({ message }) => told.push(message));
  await Promise.all([refresh.complete(), refresh.look(), refresh.complete()]);
  assert.deepEqual([numRefreshes, told, refresh.failure?.message], [1, ["away"], "away"]);
  isAway = false;
  await refresh.look();
  assert.deepEqual([numRefreshes, refresh.failure], [2, undefined]);
});
