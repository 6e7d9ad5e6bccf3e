/**
 * Databases behind a server in each state that they can be in: what a client is told, directly and through an ensemble, that
 * nobody else waits, and that the database is found again. The same in the tests and in the long run.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { openStore } from "../../retrieval/src/stores/open-store.ts";
import { startMongoWireServer } from "../fakes/mongo-wire-server.ts";
import { startPostgresWireServer } from "../fakes/postgres-wire-server.ts";
import { createModelRepository, EXAMPLES, type ModelRepository } from "./model-repository.ts";
import { assertSound, eventually } from "./probe-server.ts";
import { type ServerProcess, startServerProcess } from "./server-process.ts";
import { StoreProxy, type StoreState } from "./store-proxy.ts";

export interface Database {
  readonly name: "mongodb" | "postgresql";
  /** Address of the database behind `port`. */
  readonly url: (port: number) => string;
  readonly start: () => Promise<{ readonly port: number } & AsyncDisposable>;
}

export const TIMEOUT_MS = 700;
const LATE_MS = 40;
const ROW = { id: "a", vector: Float32Array.of(1, 0), document: { name: "first" }, digest: "1" };
const SHAPE = { dimensions: 2, metric: "cosine", isApproximate: false } as const;
const BODY = JSON.stringify({ inputs: [{ name: "V", datatype: "FP32", shape: [1, 2], data: [1, 0] }] });

export const MONGO: Database = {
  name: "mongodb",
  url: (port) => `mongodb://127.0.0.1:${port}/shop?directConnection=true`,
  async start() {
    const server = await startMongoWireServer({ hasSearch: true });
    return { port: Number(new URL(server.url).port), [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
  },
};
export const POSTGRES: Database = {
  name: "postgresql",
  url: (port) => `postgresql://nereid:secret@127.0.0.1:${port}/postgres`,
  start: startPostgresWireServer,
};

export interface StateCase {
  readonly title: string;
  readonly state: StoreState;
  /** The reason in the message; undefined: requests are answered. */
  readonly reason: RegExp | undefined;
}

const LOST = /ECONNRESET|EPIPE|closed|terminated|ended/i;
const SILENT = new RegExp(`(?:timed out|timeout|did not answer within ${TIMEOUT_MS} ms)`, "i");

export const STATES: readonly StateCase[] = [
  { title: "refuses", state: { kind: "refuses" }, reason: /ECONNREFUSED|closed|terminated|ended/ },
  { title: "stalls", state: { kind: "stalls" }, reason: SILENT },
  { title: "is cut at once", state: { kind: "cuts", afterBytes: 0 }, reason: LOST },
  { title: "is cut in its answer", state: { kind: "cuts", afterBytes: 20 }, reason: LOST },
  { title: "resets", state: { kind: "resets" }, reason: LOST },
  { title: "is late within the limit", state: { kind: "late", delayMs: LATE_MS }, reason: undefined },
  { title: "is late beyond the limit", state: { kind: "late", delayMs: 4 * TIMEOUT_MS }, reason: SILENT },
];

export interface DatabaseServer extends AsyncDisposable {
  readonly server: ServerProcess;
  readonly proxy: StoreProxy;
  readonly database: Database;
}

/** `initial`: the state that the server starts in. */
export async function serveDatabase(database: Database, initial: StoreState): Promise<DatabaseServer> {
  const parts: AsyncDisposable[] = [];
  const dispose = async (): Promise<void> => {
    for (const part of parts.reverse()) await part[Symbol.asyncDispose]();
  };
  try {
    const store = await database.start();
    parts.push(store);
    await fill(database.url(store.port));
    const proxy = await StoreProxy.start(store.port);
    parts.push(proxy);
    await proxy.enter(initial);
    const models = await createModels(database.url(proxy.port));
    parts.push(models);
    const server = await startServerProcess({ repositories: [models.path] });
    parts.push({ [Symbol.asyncDispose]: () => server.kill() });
    return { server, proxy, database, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

async function fill(url: string): Promise<void> {
  const options = { folder: ".", maxConnections: 1, timeoutMs: 60_000, retries: 1, log: () => undefined, env: {} };
  const store = openStore(url, options);
  await store.create("things", SHAPE);
  await store.upsert("things", [ROW]);
  await store.close();
}

function createModels(url: string): Promise<ModelRepository> {
  const tensors = `input [ { name: "V" data_type: TYPE_FP32 dims: [ 2 ] } ]
output [ { name: "ids" data_type: TYPE_STRING dims: [ -1 ] } ]
max_batch_size: 4`;
  const settings = { store: url, collection: "things", k: "1", timeout_ms: `${TIMEOUT_MS}`, retries: "1" };
  const parameters = Object.entries({ ...settings, max_connections: "2" }).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
  );
  return createModelRepository({
    copies: [join(EXAMPLES, "simple")],
    files: {
      "things/config.pbtxt": `backend: "retrieval"\n${tensors}\n${parameters.join("\n")}`,
      "all/config.pbtxt": `platform: "ensemble"\n${tensors}\nensemble_scheduling { step [ { model_name: "things"
        model_version: -1 input_map { key: "V" value: "V" } output_map { key: "ids" value: "ids" } } ] }`,
    },
  });
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

async function ask({ server }: DatabaseServer, model: string): Promise<Answer> {
  const reply = await fetch(`${server.baseUrl}/v2/models/${model}/infer`, { method: "POST", body: BODY });
  return { status: reply.status, text: await reply.text() };
}

/** Plays one state, then lets the database come back. @throws AssertionError */
export async function expectState(all: DatabaseServer, { state, reason }: StateCase): Promise<void> {
  await all.proxy.enter(state);
  const asked = Promise.all(["things", "all", "things", "all"].map((model) => ask(all, model)));
  await assertSound(all.server); // others are answered meanwhile
  const answers = await asked;
  for (const [index, { status, text }] of answers.entries()) {
    assert.equal(status, reason === undefined ? 200 : 503, text);
    if (reason === undefined) continue;
    assert.match(text, reason);
    assert.match(
      text,
      index % 2 === 0 ? /^\{"error":"[a-z]+:\/\/127\.0\.0\.1:\d+\// : /in ensemble 'all', [a-z]+:\/\//,
    );
    assert.doesNotMatch(text, /secret|nereid:/);
  }
  await all.proxy.enter({ kind: "well" });
  await expectBack(all);
}

export async function expectBack(all: DatabaseServer): Promise<void> {
  for (const model of ["things", "all"]) {
    const { text } = await eventually(
      () => ask(all, model),
      ({ status }) => status === 200,
    );
    assert.deepEqual(JSON.parse(text).outputs[0].data, [ROW.id]);
  }
}
