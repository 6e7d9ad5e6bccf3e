/**
 * Documents in MongoDB by the official driver: against FerretDB where NEREID_FERRETDB names its program, and against a small
 * test server of the wire protocol for what FerretDB has not, and for its absence.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { openStore, openStores, type StoreOptions } from "../../retrieval/src/stores/open-store.ts";
import type { Row, VectorStore } from "../../retrieval/src/stores/vector-store.ts";
import { startMongoWireServer } from "../fakes/mongo-wire-server.ts";
import { noFerret, startFerret } from "../support/ferret-server.ts";
import { eventually } from "../support/probe-server.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-mongo-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const OPTIONS: StoreOptions = { folder, maxConnections: 4, timeoutMs: 2000, retries: 1, log: () => undefined, env: {} };
const SHAPE = { dimensions: 2, metric: "cosine", isApproximate: false } as const;
const ROWS: readonly Row[] = [
  { id: "a", vector: Float32Array.of(1, 0), document: { name: "first", note: { text: "its own" } }, digest: "1" },
  { id: "b", vector: Float32Array.of(0, 1), document: { name: "second", year: 2020 }, digest: "2" },
];
const QUERY = {
  vectors: [Float32Array.of(1, 0.1), Float32Array.of(0, 2)],
  k: 2,
  metric: "cosine",
  filter: [],
} as const;

async function expectDocuments(store: VectorStore): Promise<void> {
  const found = await store.search("things", QUERY);
  assert.deepEqual(
    found.map((hits) => hits.map(({ id }) => id)),
    [
      ["a", "b"],
      ["b", "a"],
    ],
  );
  assert.deepEqual(
    found[0]?.map(({ document }) => JSON.parse(document)),
    ROWS.map(({ document }) => document),
  );
  assert.ok(Math.abs((found[1]?.[0]?.score ?? 0) - 1) < 1e-6);
}

async function fill(store: VectorStore): Promise<void> {
  await store.create("things", SHAPE);
  await store.upsert("things", ROWS);
  await store.upsert("things", ROWS);
  assert.deepEqual(await store.digests("things", ["b", "none", "a"]), ["2", undefined, "1"]);
}

test("vectors in memory are answered with their documents in MongoDB (test server of the wire protocol)", async () => {
  await using server = await startMongoWireServer({ hasSearch: false });
  const store = openStores("memory:memory", server.url, OPTIONS);
  await fill(store);
  await expectDocuments(store);
  await store.close();
  assert.ok(server.commands.includes("update") && server.commands.includes("find"));
});

test("`$vectorSearch` is used where the server has it, with scores as other stores give them (test server)", async () => {
  await using server = await startMongoWireServer({ hasSearch: true });
  const store = openStore(server.url, OPTIONS);
  await fill(store);
  await expectDocuments(store);
  await store.close();
});

test("a server without `$vectorSearch` is named as what it is, with the cure (test server)", async () => {
  await using server = await startMongoWireServer({ hasSearch: false });
  const store = openStore(server.url, OPTIONS);
  await assert.rejects(store.search("things", QUERY), {
    code: "unsupported",
    message: /has no \$vectorSearch; keep vectors in PostgreSQL or PGlite/,
  });
  await store.close();
});

test("a server that goes away fails look-ups clearly, and is found again by itself (test server)", async () => {
  await using server = await startMongoWireServer({ hasSearch: true });
  const url = server.url.replace("mongodb://", "mongodb://someone:secret@").replace("?", "?authMechanism=PLAIN&");
  const store = openStore(server.url, { ...OPTIONS, timeoutMs: 500 });
  await fill(store);
  await server.pause();
  await assert.rejects(store.search("things", QUERY), {
    code: "unavailable",
    message: /^mongodb:\/\/127\.0\.0\.1:\d+\/shop is away \(\w+: [^)]+\)/,
  });
  await server.resume();
  await eventually(
    () => store.search("things", QUERY).catch(() => undefined),
    (found) => found !== undefined,
  );
  await expectDocuments(store);
  await store.close();
  const away = openStore(url.replace(/:\d+\//, ":1/"), { ...OPTIONS, timeoutMs: 300 });
  await assert.rejects(away.digests("things", ["a"]), (error: Error) => !/secret|someone/.test(error.message));
  await away.close();
});

test("vectors in memory are answered with their documents in FerretDB", {
  skip: noFerret,
  timeout: 600_000,
}, async () => {
  await using ferret = await startFerret(join(folder, "ferret"));
  const store = openStores("memory:ferret-vectors", ferret.url, { ...OPTIONS, timeoutMs: 5000 });
  await fill(store);
  await expectDocuments(store);
  await store.close();
});
