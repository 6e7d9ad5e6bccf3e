/** Takes out every protection of `tests/mutants` and expects a test beside it to fail. First, all these tests pass without a mutant. */
import assert from "node:assert/strict";
import process from "node:process";
import { MUTANTS } from "../mutants/mutants.ts";
import { runMutant, runTests } from "../mutants/run-mutant.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

/** Mutants at one time: those that make a test wait for ever cost nothing but time. */
const NUM_TOGETHER = 6;

export const mutantsSoak: Soak = { name: "mutants", run };

/** As long as it takes; seed and time are of no use. */
async function run(_: SoakOptions): Promise<SoakResult> {
  const testFiles = [...new Set(MUTANTS.flatMap(({ tests }) => tests))];
  const broken: string[] = [];
  await eachTogether(testFiles, async (file) => {
    const { passed, failure } = await runTests(file);
    if (!passed) broken.push(failure);
  });
  assert.deepEqual(broken, [], "tests fail without a mutant");
  const survivors: string[] = [];
  await eachTogether(MUTANTS, async (mutant) => {
    const { passed, failure } = await runMutant(mutant);
    process.stdout.write(
      `${passed ? "SURVIVES" : "noticed"} ${mutant.property} ${mutant.name}: ${failure.slice(0, 160)}\n`,
    );
    if (passed) survivors.push(`${mutant.property} ${mutant.name}`);
  });
  assert.deepEqual(survivors, [], "no test notices these mutants");
  return { mutants: MUTANTS.length, testFiles: testFiles.length, survivors: survivors.length };
}

async function eachTogether<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let item = items[next++]; item !== undefined; item = items[next++]) await work(item);
  };
  await Promise.all(Array.from({ length: NUM_TOGETHER }, lane));
}
