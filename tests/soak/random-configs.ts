/** Every recorded random configuration of every family beside transformers: the same tokens, or a refusal that the table knows. */
import assert from "node:assert/strict";
import { checkConfig, families, isExpected } from "../parity/random/check-config.ts";
import { readFamily } from "../parity/random/generated-model.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const MIN_CONFIGS = 200;

export const randomConfigsSoak: Soak = { name: "random-configs", run };

/** As long as it takes; seed and time are of no use. */
async function run(_: SoakOptions): Promise<SoakResult> {
  const result: Record<string, number> = {};
  const wrong: string[] = [];
  for (const family of families()) {
    const configs = readFamily(family);
    assert.ok(configs.length >= MIN_CONFIGS, `${family} has ${configs.length} configurations`);
    let same = 0;
    for (const [index, recorded] of configs.entries()) {
      const outcome = await checkConfig(recorded);
      if (outcome === "same") same += 1;
      if (!isExpected(outcome)) wrong.push(`${family} ${index}: ${outcome}`);
    }
    result[`${family}: same`] = same;
    result[`${family}: refused`] = configs.length - same;
  }
  assert.deepEqual(wrong, []);
  return result;
}
