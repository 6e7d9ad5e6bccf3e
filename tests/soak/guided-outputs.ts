/** Outputs of 50 random schemas, one of each in a round, until the time is over. */
import { addOutputs, type OutputCounts, RandomOutputs } from "../guides/random-outputs.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const NUM_SCHEMAS = 50;

export const guidedOutputsSoak: Soak = { name: "guided-outputs", run };

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const outputs = await RandomOutputs.create(seed, NUM_SCHEMAS);
  let sum: OutputCounts = { finished: 0, cut: 0, tokens: 0, takenBack: 0 };
  try {
    for (let round = 1; performance.now() < deadlineMs; round++) sum = addOutputs(sum, await outputs.run(seed + round));
  } finally {
    await outputs.close();
  }
  return { schemas: NUM_SCHEMAS, ...sum };
}
