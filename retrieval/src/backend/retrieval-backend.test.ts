import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import {
  bytesTensor,
  floatsOf,
  floatTensor,
  type LoadedInstance,
  loadInstance,
  textsOf,
} from "../../../tests/fakes/run-instance.ts";
import { openStore } from "../stores/open-store.ts";
import type { Row } from "../stores/vector-store.ts";
import { createBackend } from "./retrieval-backend.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "nereid-retrieval-"));
/** One of each store stays open, as in a server: PGlite takes seconds to start. */
const BACKEND = createBackend();
const held: LoadedInstance[] = [];
after(async () => {
  for (const loaded of held) await loaded[Symbol.asyncDispose]();
  rmSync(FOLDER, { recursive: true });
});

const STORE_OPTIONS = { folder: FOLDER, maxConnections: 2, timeoutMs: 5000, retries: 1, log: () => undefined, env: {} };
const DOCUMENTS: readonly (readonly [id: string, vector: readonly number[], color: string, year: number])[] = [
  ["north", [0, 1, 0], "red", 1999],
  ["east", [1, 0, 0], "blue", 2005],
  ["north-east", [0.8, 0.6, 0], "red", 2010],
  ["up", [0, 0, 2], "blue", 2021],
];
const ROWS: readonly Row[] = DOCUMENTS.map(([id, vector, color, year]) => ({
  id,
  vector: Float32Array.from(vector),
  document: { color, year, title: `the way ${id}; DROP TABLE "places" --` },
  digest: "1",
}));

function configOf(store: string, parameters: Readonly<Record<string, string>> = {}, width = -1): string {
  const all = { store, collection: "places", k: "2", ...parameters };
  const lines = Object.entries(all).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: ${JSON.stringify(value)} } }`,
  );
  return `name: "look_up" backend: "retrieval" max_batch_size: 8
    input [ { name: "embedding" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "k" data_type: TYPE_INT32 dims: [ 1 ] optional: true },
            { name: "filter" data_type: TYPE_STRING dims: [ 1 ] optional: true } ]
    output [ { name: "ids" data_type: TYPE_STRING dims: [ ${width} ] }, { name: "scores" data_type: TYPE_FP32 dims: [ ${width} ] },
             { name: "documents" data_type: TYPE_STRING dims: [ ${width} ] } ]
    ${lines.join("\n")}`;
}

const load = (store: string, parameters?: Readonly<Record<string, string>>, width?: number): Promise<LoadedInstance> =>
  loadInstance(BACKEND, configOf(store, parameters, width), FOLDER);
const near = (...vectors: readonly (readonly number[])[]) => [
  floatTensor("embedding", [vectors.length, vectors[0]?.length ?? 0], vectors.flat()),
];
const filter = (value: unknown) => bytesTensor("filter", [1, 1], [JSON.stringify(value)]);

for (const kind of ["memory", "pglite"]) {
  const address = `${kind}:${kind}-store`;

  test(`a ${kind} store keeps what is written, by id, and says what it has`, async () => {
    const store = openStore(address, STORE_OPTIONS);
    await assert.rejects(store.digests("places", ["north"]), { code: "not_found" });
    const shape = { dimensions: 3, metric: "cosine", isApproximate: kind === "pglite" } as const;
    await store.create("places", shape);
    await store.upsert("places", ROWS.slice(0, 3));
    await store.upsert(
      "places",
      ROWS.slice(1).map((row) => ({ ...row, digest: "2" })),
    );
    assert.deepEqual(await store.digests("places", ["up", "north", "none"]), ["2", "1", undefined]);
    await store.create("places", shape);
    await assert.rejects(
      store.create("places", { ...shape, dimensions: 4 }),
      /is there with vectors of 3 numbers, this encoder gives 4/,
    );
    await store.close();
    held.push(await load(address));
  });

  test(`the backend \`retrieval\` finds the nearest of a ${kind} store for each row`, async () => {
    await using loaded = await load(address);
    const outputs = await loaded.run(near([0, 3, 0], [0, 0, 1]));
    assert.deepEqual(outputs.get("ids")?.shape, [2, 2]);
    const [first, second, third] = textsOf(outputs.get("ids"));
    assert.deepEqual([first, second, third], ["north", "north-east", "up"]);
    const [best = 0, next = 0, other = 0, none = 0] = floatsOf(outputs.get("scores"));
    for (const [got, expected] of [
      [best, 1],
      [next, 0.6],
      [other, 1],
      [none, 0],
    ] as const) {
      assert.ok(Math.abs(got - expected) < 1e-6, `${got} ${expected}`);
    }
    const [document = ""] = textsOf(outputs.get("documents"));
    assert.deepEqual(JSON.parse(document), {
      color: "red",
      year: 1999,
      title: 'the way north; DROP TABLE "places" --',
    });
  });

  for (const [metric, scores] of [
    ["dot", [4, 0]],
    ["l2", [0, -Math.sqrt(4.64)]],
  ] as const) {
    test(`the backend \`retrieval\` scores a ${kind} store by ${metric}`, async () => {
      await using loaded = await load(address, { metric });
      const outputs = await loaded.run(near([0, 0, 2]));
      assert.equal(textsOf(outputs.get("ids"))[0], "up");
      assert.ok(Math.abs((floatsOf(outputs.get("scores"))[0] ?? 9) - scores[0]) < 1e-6);
    });
  }

  for (const [condition, ids] of [
    [{ color: "red" }, ["north-east", "north"]],
    [{ color: "blue", year: { $lt: 2010 } }, ["east"]],
    [{ color: { $ne: "red" } }, ["east", "up"]],
    [{ color: { $in: ["blue", "green"] }, year: { $gt: 2005 } }, ["up"]],
    [{ year: { $gte: 2005, $lte: 2010 } }, ["east", "north-east"]],
    [{ color: "red' OR TRUE --" }, []],
    [{ 'color" OR TRUE': "red" }, []],
    [{ color: { $gt: 3 } }, []],
  ] as const) {
    test(`the backend \`retrieval\` filters a ${kind} store by ${JSON.stringify(condition)}`, async () => {
      await using loaded = await load(address);
      const outputs = await loaded.run([...near([1, 0.1, 0]), filter(condition)]);
      assert.deepEqual(textsOf(outputs.get("ids")), ids);
    });
  }

  test(`the conditions of the configuration hold whatever the client says (${kind})`, async () => {
    await using loaded = await load(address, { filter: '{"color": "blue"}' });
    const outputs = await loaded.run([...near([0, 1, 0]), filter({ color: "red" })]);
    assert.deepEqual(textsOf(outputs.get("ids")), []);
  });

  test(`the backend \`retrieval\` gives as many hits as asked for, and fills rows that the configuration fixes (${kind})`, async () => {
    await using loaded = await load(address);
    const k = { name: "k", datatype: "INT32", shape: [1, 1], data: new Uint8Array(Int32Array.of(9).buffer) } as const;
    assert.equal(textsOf((await loaded.run([...near([1, 0, 0]), k])).get("ids")).length, 4);
    await using fixed = await load(address, { filter: '{"year": 1999}' }, 3);
    const outputs = await fixed.run(near([1, 0, 0]));
    assert.deepEqual(textsOf(outputs.get("ids")), ["north", "", ""]);
    assert.deepEqual([...floatsOf(outputs.get("scores"))], [0, 0, 0]);
  });

  test(`the backend \`retrieval\` says when vectors do not fit or the collection is not there (${kind})`, async () => {
    await using loaded = await load(address);
    const message = "the embedding has 2 numbers, those of the collection have 3";
    await assert.rejects(loaded.run(near([1, 2])), { code: "invalid_argument", message });
    await using other = await load(address, { collection: "elsewhere" });
    await assert.rejects(other.run(near([1, 2, 3])), {
      code: "not_found",
      message: /collection 'elsewhere' is not in .*nereid index/,
    });
  });
}

test("the backend `retrieval` refuses what can not be looked up", async () => {
  await using loaded = await load("memory:memory-store");
  const k = (value: number) =>
    ({ name: "k", datatype: "INT32", shape: [1, 1], data: new Uint8Array(Int32Array.of(value).buffer) }) as const;
  for (const [inputs, message] of [
    [near([Number.NaN, 0, 0]), /has numbers that are not finite/],
    [[...near([1, 0, 0]), k(0)], /input 'k' is 0, expected 1 to 1000/],
    [[...near([1, 0, 0]), k(1001)], /input 'k' is 1001/],
    [[...near([1, 0, 0]), bytesTensor("filter", [1, 1], ["color = red"])], /input 'filter' expects a JSON object/],
    [[...near([1, 0, 0]), filter({ $where: "1" })], /expects names of members/],
    [[...near([1, 0, 0]), filter({ color: { $regex: "r" } })], /expects one of \$eq, \$ne/],
    [[...near([1, 0, 0]), filter({ year: { $gt: "1" } })], /expects a number for \$gt/],
    [[...near([1, 0, 0]), bytesTensor("filter", [1, 1], ["x".repeat(16_385)])], /has 16385 characters/],
  ] as const) {
    await assert.rejects(loaded.run(inputs), { code: "invalid_argument", message });
  }
});

for (const [store, parameters, message] of [
  ["redis://x", {}, /no store is at an address of 'redis:'/],
  ["env:NEREID_NO_SUCH_VARIABLE", {}, /is in the variable NEREID_NO_SUCH_VARIABLE, which is not set/],
  ["memory:x", { collection: 'a"; DROP TABLE b' }, /is no name of a collection/],
  ["memory:x", { metric: "hamming" }, /'metric' is 'hamming', expected cosine, dot, l2/],
  ["memory:x", { k: "0" }, /'k' is '0', expected a whole number from 1 to 1000/],
  ["memory:x", { filter: "[1]" }, /parameter 'filter' expects a JSON object/],
] as const) {
  test(`\`load()\` refuses ${store} with ${JSON.stringify(parameters)}`, async () => {
    await assert.rejects(async () => (await load(store, parameters))[Symbol.asyncDispose](), message);
  });
}

test("a folder of PGlite is open in one process at a time, and the refusal names the other", async () => {
  await using loaded = await load("pglite:pglite-store");
  await loaded.run(near([1, 0, 0]));
  const second = openStore("pglite:pglite-store", STORE_OPTIONS);
  await assert.rejects(
    second.digests("places", ["x"]),
    /is open in process \d+; one process at a time may use a folder/,
  );
  await second.close();
});

test("a PostgreSQL server that is away fails look-ups with its address and without its password", async () => {
  await using loaded = await load("postgresql://someone:secret@127.0.0.1:1/db", { timeout_ms: "500", retries: "1" });
  for (let i = 0; i < 2; i++) {
    await assert.rejects(loaded.run(near([1, 0, 0])), {
      code: "unavailable",
      message: "postgresql://127.0.0.1:1/db is away (ECONNREFUSED); it is tried again every second",
    });
  }
  assert.equal(loaded.instance.isReady(), true);
});
