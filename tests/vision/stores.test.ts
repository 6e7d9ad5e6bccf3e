/** The same collection in every store: a real PostgreSQL server gives the answers that PGlite and memory give, and comes back. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { openStore } from "../../server/src/collections/open-store.ts";
import type { Filter, Hit, Row, SearchQuery, VectorStore } from "../../server/src/collections/vector-store.ts";
import { findPostgres, PostgresServer } from "../support/postgres-server.ts";
import { createRandom } from "../support/random.ts";

const DIMENSIONS = 24;
const NUM_ROWS = 600;
const found = findPostgres();
const skip = "bin" in found ? false : found.reason;

const open = (address: string, folder: string): VectorStore =>
  openStore(address, { folder, maxConnections: 4, timeoutMs: 5000, retries: 1, log: () => undefined, env: {} });

function rows(): Row[] {
  const random = createRandom(5);
  return Array.from({ length: NUM_ROWS }, (_, i) => ({
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

test("memory, PGlite and a PostgreSQL server give the same answers", { skip, timeout: 120_000 }, async () => {
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

test("a PostgreSQL server that is killed under load fails look-ups clearly meanwhile, and is found again", {
  skip,
  timeout: 120_000,
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
    message: /^postgresql:\/\/127\.0\.0\.1:\d+\/postgres is away \(\S+\); it is tried again every second$/,
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
