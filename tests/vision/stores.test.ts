/** The same collection in every store: a real PostgreSQL server gives the answers that PGlite and memory give, and comes back. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { openStore } from "../../retrieval/src/stores/open-store.ts";
import type { Filter, Hit, Row, SearchQuery, VectorStore } from "../../retrieval/src/stores/vector-store.ts";
import { findPostgres, PostgresServer } from "../support/postgres-server.ts";
import { createRandom } from "../support/random.ts";

const DIMENSIONS = 24;
const NUM_ROWS = 600;
const found = findPostgres();
const skip = "bin" in found ? false : found.reason;

const open = (address: string, folder: string): VectorStore =>
  openStore(address, { folder, maxConnections: 4, timeoutMs: 5000, retries: 1, log: () => undefined, env: {} });

function rows(count: number = NUM_ROWS): Row[] {
  const random = createRandom(5);
  return Array.from({ length: count }, (_, i) => ({
    id: `row-${i}`,
    vector: Float32Array.from({ length: DIMENSIONS }, () => random.next() - 0.5),
    document: { group: i % 7, name: `it's "row" ${i}; --`, tags: ["a", "b"] },
    digest: String(i),
  }));
}

function queries(): SearchQuery[] {
  const random = createRandom(6);
  const vectors = Array.from({ length: 8 }, () => Float32Array.from({ length: DIMENSIONS }, () => random.next() - 0.5));
  const filters: Filter[] = [
    [],
    [{ field: "group", test: "in", value: [2, 3] }],
    [{ field: "group", test: "gte", value: 5 }],
  ];
  return (["cosine", "dot", "l2"] as const).flatMap((metric) =>
    filters.map((filter) => ({ vectors, k: 10, metric, filter })),
  );
}

async function fill(store: VectorStore): Promise<void> {
  await store.create("places", { dimensions: DIMENSIONS, metric: "cosine", isApproximate: false });
  await store.upsert("places", rows());
}

function expectSame(got: readonly (readonly Hit[])[], expected: readonly (readonly Hit[])[]): void {
  assert.deepEqual(
    got.map((hits) => hits.map(({ id, document }) => [id, JSON.parse(document)])),
    expected.map((hits) => hits.map(({ id, document }) => [id, JSON.parse(document)])),
  );
  got.forEach((hits, i) => {
    hits.forEach(({ score }, j) => {
      assert.ok(Math.abs(score - (expected[i]?.[j]?.score ?? Number.NaN)) < 1e-5);
    });
  });
}

test("memory, PGlite and a PostgreSQL server give the same answers", { skip, timeout: 600_000 }, async () => {
  assert.ok("bin" in found);
  const folder = mkdtempSync(join(tmpdir(), "nereid-stores-"));
  await using server = await PostgresServer.create(found.bin);
  const stores = [open("memory:memory", folder), open("pglite:pglite", folder), open(server.url, folder)];
  try {
    for (const store of stores) await fill(store);
    for (const query of queries()) {
      const [expected = [], ...others] = await Promise.all(stores.map((store) => store.search("places", query)));
      assert.equal(expected.length, query.vectors.length);
      assert.ok(expected.every((hits) => hits.length === query.k));
      for (const got of others) expectSame(got, expected);
    }
  } finally {
    for (const store of stores) await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

/** Scans of an HNSW index. */
async function numIndexScans(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query("SELECT pg_stat_force_next_flush()");
    const { rows } = await client.query(
      "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'places_cosine'",
    );
    return Number(rows[0]?.idx_scan);
  } finally {
    await client.end();
  }
}

test("an approximate index is used, and finds as many rows as are asked for and nearly all of the nearest", {
  skip,
  timeout: 600_000,
}, async () => {
  assert.ok("bin" in found);
  await using server = await PostgresServer.create(found.bin);
  const store = open(server.url, ".");
  const folder = mkdtempSync(join(tmpdir(), "nereid-stores-"));
  const exact = open("memory:exact", folder);
  const all = rows(3000);
  for (const [each, isApproximate] of [
    [store, true],
    [exact, false],
  ] as const) {
    await each.create("places", { dimensions: DIMENSIONS, metric: "cosine", isApproximate });
    for (let at = 0; at < all.length; at += NUM_ROWS) await each.upsert("places", all.slice(at, at + NUM_ROWS));
  }
  const vectors = all.slice(0, 20).map(({ vector }) => vector.map((value) => value + 0.01));
  const asked: readonly Pick<SearchQuery, "k" | "filter">[] = [
    { k: 3, filter: [] },
    { k: 150, filter: [] },
    { k: 20, filter: [{ field: "group", test: "in", value: [2] }] },
  ];
  for (const each of asked) {
    const query: SearchQuery = { vectors, metric: "cosine", ...each };
    const [got, expected] = await Promise.all([store.search("places", query), exact.search("places", query)]);
    assert.deepEqual(
      got.map(({ length }) => length),
      vectors.map(() => each.k),
    );
    const ids = got.map((hits) => new Set(hits.map(({ id }) => id)));
    const numFound = expected.flatMap((hits, i) => hits.filter(({ id }) => ids[i]?.has(id))).length;
    assert.ok(numFound >= 0.95 * vectors.length * each.k, `${numFound} of ${vectors.length * each.k}`);
  }
  await store.close();
  await exact.close();
  rmSync(folder, { recursive: true, force: true });
  assert.ok((await numIndexScans(server.url)) >= vectors.length);
});

test("a PostgreSQL server that is killed under load fails look-ups clearly meanwhile, and is found again", {
  skip,
  timeout: 600_000,
}, async () => {
  assert.ok("bin" in found);
  await using server = await PostgresServer.create(found.bin);
  const store = open(server.url, ".");
  await fill(store);
  const [query] = queries();
  assert.ok(query !== undefined);
  const expected = await store.search("places", query);
  const outcomes: string[] = [];
  let isOver = false;
  const clients = Array.from({ length: 8 }, async () => {
    while (!isOver) {
      await store.search("places", query).then(
        () => outcomes.push("ok"),
        (error: Error & { code?: string }) => outcomes.push(`${error.code}: ${error.message}`),
      );
      await sleep(10);
    }
  });
  await sleep(300);
  await server.kill();
  await sleep(700);
  await assert.rejects(store.search("places", query), {
    code: "unavailable",
    message: /^postgresql:\/\/127\.0\.0\.1:\d+\/postgres is away \(.+\); it is tried again every second$/,
  });
  await server.start();
  let got: readonly (readonly Hit[])[] | undefined;
  while (got === undefined) {
    got = await store.search("places", query).catch(() => undefined);
    await sleep(100);
  }
  isOver = true;
  await Promise.all(clients);
  expectSame(got, expected);
  const failures = new Set(outcomes.filter((outcome) => outcome !== "ok"));
  assert.ok(outcomes.includes("ok"));
  assert.ok(failures.size > 0);
  for (const failure of failures) {
    assert.match(failure, /^unavailable: /);
    assert.doesNotMatch(failure, /secret|nereid:/);
  }
  await store.close();
});
