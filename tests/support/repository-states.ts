/**
 * Model repositories in each kind of store and each state that it can be in: what a load is told, that models of other
 * repositories load meanwhile, and that the store is found again. The same in the tests and in the long run.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Dialect, ObjectServer } from "../../object-stores/src/object-server.test-support.ts";
import { openRepository } from "../../object-stores/src/open-repository.ts";
import { environmentOf, serverAddress } from "../../object-stores/src/open-stores.test-support.ts";
import { ServerError } from "../../server/src/core/server-error.ts";
import { tarOf } from "../../server/src/files/tar/tar-writer.test-support.ts";
import { FakeHub } from "../../server/src/hub/hub-server.test-support.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../server/src/observe/log.ts";
import { localLocation, remoteLocation } from "../../server/src/repository/source/repository-location.ts";
import { RepositoryPoller } from "../../server/src/repository/source/repository-poller.ts";
import { createTestRepository, identityConfig, type TestRepository } from "../fakes/model-repository.ts";
import { collect, fakeRequest, int32, int32Values } from "../fakes/requests.ts";
import { eventually } from "./probe-server.ts";
import { StoreProxy, type StoreState } from "./store-proxy.ts";

export type StoreKind = "s3" | "gs" | "as" | "hf" | "archive";

export const STORE_KINDS: readonly StoreKind[] = ["s3", "gs", "as", "hf", "archive"];

export interface RepositoryStateCase {
  readonly title: string;
  readonly state: StoreState;
  /** Reason in the answer of a load; undefined: it succeeds. */
  readonly reason: RegExp | undefined;
}

const SILENT = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_info: false, log_warning: false, log_error: false });
const STALL_SECONDS = "0.3";
const WEIGHT_BYTES = 200_000;
const LOST = /ECONNRESET|EPIPE|socket|closed|terminated|ended/i;

export const REPOSITORY_STATES: readonly RepositoryStateCase[] = [
  { title: "refuses", state: { kind: "refuses" }, reason: /ECONNREFUSED/ },
  { title: "stalls", state: { kind: "stalls" }, reason: /nothing came for 0\.3 seconds/ },
  { title: "is cut at once", state: { kind: "cuts", afterBytes: 0 }, reason: LOST },
  { title: "is cut in its answers", state: { kind: "cuts", afterBytes: 60 }, reason: LOST },
  { title: "resets", state: { kind: "resets" }, reason: LOST },
  { title: "is late within the limit", state: { kind: "late", delayMs: 20 }, reason: undefined },
  {
    title: "is late beyond the limit",
    state: { kind: "late", delayMs: 1500 },
    reason: /nothing came for 0\.3 seconds/,
  },
];

interface RemoteStore extends AsyncDisposable {
  readonly port: number;
  put(model: string, config: string, weights?: Buffer): void;
  address(endpoint: string): { readonly url: string; readonly env: Readonly<Record<string, string>> };
}

export interface ServedStore extends AsyncDisposable {
  readonly kind: StoreKind;
  readonly served: TestRepository;
  readonly proxy: StoreProxy;
  readonly store: RemoteStore;
}

/** A model `far` in the store behind a proxy, and a model `near` in a folder. */
export async function serveStore(kind: StoreKind): Promise<ServedStore> {
  const store = await startStore(kind);
  const proxy = await StoreProxy.start(store.port);
  const folder = mkdtempSync(join(tmpdir(), "nereid-store-states-"));
  mkdirSync(join(folder, "near/near/1"), { recursive: true });
  writeFileSync(join(folder, "near/near/config.pbtxt"), identityConfig());
  store.put("far", identityConfig());
  const { url, env } = store.address(`http://127.0.0.1:${proxy.port}`);
  const remote = await openRepository({
    url,
    env: { ...env, NEREID_MODEL_CACHE: join(folder, "cache"), NEREID_STORE_TIMEOUT_SECONDS: STALL_SECONDS },
    log: SILENT,
    isWatched: true,
    firstPauseMs: 1,
    arrangeModel: async () => undefined,
  });
  const places = [remoteLocation(remote), localLocation(join(folder, "near"))];
  const served = createTestRepository({}, [], undefined, { places });
  const failures = await served.manager.loadAtStart(undefined);
  assert.deepEqual([...failures], []);
  return {
    ...{ kind, served, proxy, store },
    async [Symbol.asyncDispose]() {
      await served[Symbol.asyncDispose]();
      await proxy[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Plays one state, then lets the store come back. @throws AssertionError */
export async function expectRepositoryState(all: ServedStore, { state, reason }: RepositoryStateCase): Promise<void> {
  const { served, proxy, store, kind } = all;
  await proxy.enter(state);
  const far = outcome(served.manager.load("far", {}));
  await served.manager.load("near", {}); // needs nothing of the store
  await new RepositoryPoller(served.manager, SILENT).poll();
  for (const model of ["near", "far"]) assert.deepEqual(await ask(served, model), [4, 5]);
  const error = await far;
  // An archive is fetched as a whole: its models load from the one that is there.
  if (reason === undefined || kind === "archive") assert.equal(error, undefined);
  else {
    assert.equal(error?.code, "unavailable", error?.message);
    assert.match(error.message, /^failed to load 'far', failed to poll from model repository: /);
    assert.match(error.message, reason);
  }
  const unknown = await outcome(served.manager.load("nosuch", {}));
  assert.equal(unknown?.code, reason === undefined ? "internal" : "unavailable", unknown?.message);
  await proxy.enter({ kind: "well" });
  await expectBack(all, `# ${state.kind} ${store.port}`);
}

/** A changed model arrives, by a load and by a poll. */
async function expectBack({ served, store }: ServedStore, mark: string): Promise<void> {
  const config = (text: string): string =>
    identityConfig(`parameters { key: "mark" value { string_value: "${text}" } }`);
  const markOf = (): string | undefined => served.registry.lookUp("far", "").config.parameters.mark?.string_value;
  store.put("far", config(mark));
  await eventually(
    () => outcome(served.manager.load("far", {})),
    (error) => error === undefined,
  );
  assert.equal(markOf(), mark);
  const poller = new RepositoryPoller(served.manager, SILENT);
  store.put("far", config(`${mark} polled`));
  await eventually(
    async () => {
      await poller.poll();
      return markOf();
    },
    (found) => found === `${mark} polled`,
  );
  assert.deepEqual(await ask(served, "far"), [4, 5]);
}

/** Weights arrive over connections that each end after a part of them. */
export async function expectResumed({ served, proxy, store }: ServedStore): Promise<void> {
  store.put("large", identityConfig(), Buffer.alloc(WEIGHT_BYTES, "weights "));
  await proxy.enter({ kind: "cuts", afterBytes: WEIGHT_BYTES / 3 });
  await served.manager.load("large", {});
  assert.deepEqual(await ask(served, "large"), [4, 5]);
  await proxy.enter({ kind: "well" });
}

function outcome(action: Promise<void>): Promise<ServerError | undefined> {
  return action.then(
    () => undefined,
    (error: unknown) => ServerError.from(error),
  );
}

async function ask({ registry }: TestRepository, model: string): Promise<number[]> {
  const request = fakeRequest([int32("INPUT0", [1, 2], [4, 5])]);
  const [response] = await collect(registry.lookUp(model, "").infer(request));
  return int32Values(response?.outputs[0]);
}

function startStore(kind: StoreKind): Promise<RemoteStore> {
  if (kind === "hf") return startHub();
  return kind === "archive" ? startArchive() : startObjects(kind);
}

async function startObjects(dialect: Dialect): Promise<RemoteStore> {
  const server = await ObjectServer.start(dialect);
  server.pageSize = 1000;
  return {
    port: Number(new URL(server.endpoint).port),
    put(model, config, weights = Buffer.from("x")) {
      server.put(`repo/${model}/config.pbtxt`, config);
      server.put(`repo/${model}/1/weights`, weights);
    },
    address: (endpoint) => ({
      url: serverAddress(dialect, { endpoint }, "repo"),
      env: environmentOf(dialect, { endpoint }, ""),
    }),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function startHub(): Promise<RemoteStore> {
  const hub = await FakeHub.start();
  return {
    port: Number(new URL(hub.endpoint).port),
    put(model, config, weights = Buffer.from("x")) {
      hub.add(`${model}/config.pbtxt`, config);
      hub.add(`${model}/1/weights`, weights);
    },
    address: (endpoint) => ({
      url: "hf://org/tiny",
      env: { HF_ENDPOINT: endpoint, HF_HUB_DOWNLOAD_TIMEOUT: STALL_SECONDS },
    }),
    [Symbol.asyncDispose]: () => hub[Symbol.asyncDispose](),
  };
}

async function startArchive(): Promise<RemoteStore> {
  const models = new Map<string, readonly [string, Buffer]>();
  const content = (): Buffer =>
    tarOf(
      [...models].flatMap(([model, [config, weights]]) => [
        { name: `${model}/config.pbtxt`, content: config },
        { name: `${model}/1/weights`, content: weights },
      ]),
    );
  const server = createServer(({ headers }, response) => {
    const all = content();
    const [, from = "0", to = ""] = /^bytes=(\d+)-(\d*)/.exec(headers.range ?? "") ?? [];
    const end = to === "" ? all.length : Number(to) + 1;
    const part = all.subarray(Number(from), end);
    response.writeHead(headers.range === undefined ? 200 : 206, {
      etag: `"${createHash("md5").update(all).digest("hex")}"`,
      "content-length": part.length,
      "content-range": `bytes ${from}-${end - 1}/${all.length}`,
    });
    response.end(part);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    port: (server.address() as AddressInfo).port,
    put: (model, config, weights = Buffer.from("x")) => void models.set(model, [config, weights]),
    address: (endpoint) => ({ url: `${endpoint}/models.tar`, env: {} }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
