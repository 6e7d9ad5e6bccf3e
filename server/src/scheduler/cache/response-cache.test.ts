import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeRequest, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import type { InferRequest } from "../../core/infer-request.ts";
import { cacheKey, ResponseCache } from "./response-cache.ts";

const MIB = 1024 * 1024;

test("lookUp() finds what was inserted, as a copy of its own", () => {
  const cache = new ResponseCache(MIB);
  const output = int32("Y", [2], [1, 2]);
  assert.equal(cache.lookUp("a"), undefined);
  cache.insert("a", [output]);
  output.data.fill(9);
  assert.deepEqual(int32Values(cache.lookUp("a")?.[0]), [1, 2]);
  const { numLookups, numHits, numMisses, numEntries } = cache.statistics();
  assert.deepEqual([numLookups, numHits, numMisses, numEntries], [2, 1, 1, 1]);
});

test("insert() drops the least recently used and refuses what can never fit", () => {
  const cache = new ResponseCache(4000);
  const kilobyte = (): ReturnType<typeof int32> => int32("Y", [250], new Array(250).fill(1));
  cache.insert("a", [kilobyte()]);
  cache.insert("b", [kilobyte()]);
  cache.lookUp("a");
  cache.insert("c", [kilobyte()]);
  assert.deepEqual(
    ["a", "b", "c"].map((key) => cache.lookUp(key) !== undefined),
    [true, false, true],
  );
  cache.insert("huge", [int32("Y", [2000], new Array(2000).fill(1))]);
  assert.equal(cache.lookUp("huge"), undefined);
  assert.equal(cache.statistics().numEvictions, 1);
  cache.checkIntegrity();
});

test("the cache stays within its bytes under random use", () => {
  const cache = new ResponseCache(20_000);
  let seed = 7;
  const random = (limit: number): number => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed % limit;
  };
  for (let i = 0; i < 5000; i += 1) {
    const key = String(random(60));
    if (cache.lookUp(key) === undefined) cache.insert(key, [int32("Y", [1], new Array(random(1500)).fill(1))]);
    cache.checkIntegrity();
  }
  assert.equal(cache.statistics().numEvictions > 0, true);
});

const keyOf = (request: InferRequest, version = "1", generation = "0"): string =>
  cacheKey(request, { version, generation, parametersMatter: true });

const base = (): InferRequest => fakeRequest([int32("A", [1, 4], [1, 2, 3, 4]), int32("B", [1], [5])]);
const DIFFERENT: readonly { title: string; request: InferRequest; version?: string; generation?: string }[] = [
  { title: "another value", request: fakeRequest([int32("A", [1, 4], [1, 2, 3, 5]), int32("B", [1], [5])]) },
  {
    title: "another shape of equal bytes",
    request: fakeRequest([int32("A", [4, 1], [1, 2, 3, 4]), int32("B", [1], [5])]),
  },
  {
    title: "another datatype of equal bytes",
    request: fakeRequest([{ ...int32("A", [1, 4], [1, 2, 3, 4]), datatype: "UINT32" }, int32("B", [1], [5])]),
  },
  {
    title: "bytes moved from one input to the next",
    request: fakeRequest([int32("A", [1, 4], [1, 2, 3]), int32("B", [1], [4, 5])]),
  },
  { title: "other outputs", request: fakeRequest(base().inputs, { outputs: ["Y"] }) },
  { title: "a parameter", request: fakeRequest(base().inputs, { parameters: new Map([["p", 1]]) }) },
  { title: "another model", request: fakeRequest(base().inputs, { modelName: "other" }) },
  { title: "another version", request: base(), version: "2" },
  { title: "a reload", request: base(), generation: "1" },
];

for (const { title, request, version = "1", generation = "0" } of DIFFERENT) {
  test(`cacheKey() differs for ${title}`, () => {
    assert.notEqual(keyOf(request, version, generation), keyOf(base()));
  });
}

test("cacheKey() is equal whatever the id and the order of inputs", () => {
  const [a, b] = base().inputs;
  const turned = fakeRequest(a === undefined || b === undefined ? [] : [b, a], { id: "x" });
  assert.equal(keyOf(turned), keyOf(base()));
});

test("cacheKey() leaves parameters out for models that cannot see them", () => {
  const options = { version: "1", generation: "0", parametersMatter: false };
  const tuned = fakeRequest(base().inputs, { parameters: new Map([["p", 1]]) });
  assert.equal(cacheKey(tuned, options), cacheKey(base(), options));
});

test("cacheKey() tells lists of names apart that read the same when joined", () => {
  const keyOf = (outputs: readonly string[]): string =>
    cacheKey(fakeRequest([], { outputs }), { version: "1", generation: "0", parametersMatter: true });
  assert.notEqual(keyOf(["a", "b"]), keyOf(["ab"]));
});
