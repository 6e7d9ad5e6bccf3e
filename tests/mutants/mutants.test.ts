import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { createRandom } from "../support/random.ts";
import { FILE_MUTANTS } from "./file-mutants.ts";
import { applyMutant } from "./mutant.ts";
import { MUTANTS } from "./mutants.ts";
import { ROOT, runMutant } from "./run-mutant.ts";

const SEED = 19;
const NUM_PROPERTIES = 24;
const MIN_MUTANTS = 60;
/** Readers of files: their tests wait for nothing. `npm run soak -- mutants` takes all mutants. */
const NUM_SAMPLED = 3;

test("each mutant has its place, once, and tests that exist", () => {
  for (const mutant of MUTANTS) {
    const source = readFileSync(`${ROOT}${mutant.file}`, "utf8");
    assert.notEqual(applyMutant(source, mutant), source, mutant.name);
    for (const file of mutant.tests) assert.ok(existsSync(`${ROOT}${file}`), `${mutant.name}: ${file}`);
  }
});

test("applyMutant() refuses a place that is gone, and one that is there twice", () => {
  const mutant = { name: "m", file: "f.ts", from: "if (a)", to: "" };
  assert.throws(() => applyMutant("none", mutant), /f\.ts: mutant 'm': .*found it 0 times/);
  assert.throws(() => applyMutant("if (a); if (a);", mutant), /found it 2 times/);
});

test("the mutants break each of P1 to P24, have names of their own, and are sixty or more", () => {
  const properties = new Set(MUTANTS.map(({ property }) => property));
  const wanted = Array.from({ length: NUM_PROPERTIES }, (_, i) => `P${i + 1}`);
  assert.deepEqual([...properties].sort(), wanted.sort());
  assert.equal(new Set(MUTANTS.map(({ name }) => name)).size, MUTANTS.length);
  assert.ok(MUTANTS.length >= MIN_MUTANTS, `${MUTANTS.length}`);
});

for (const mutant of sampled()) {
  test(`a test notices the mutant '${mutant.name}' (${mutant.property})`, async () => {
    const { passed } = await runMutant(mutant);
    assert.equal(passed, false);
  });
}

function sampled(): typeof FILE_MUTANTS {
  const random = createRandom(SEED);
  const places = new Set<number>();
  while (places.size < NUM_SAMPLED) places.add(random.below(FILE_MUTANTS.length));
  return FILE_MUTANTS.filter((_, i) => places.has(i));
}
