/** Calls of tools in every format, with random schemas, from a model that knows nothing. */
import { EXAMPLES } from "../support/model-repository.ts";
import { startServerProcess } from "../support/server-process.ts";
import { runRandomCalls } from "../tool-calls/random-calls.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const PER_ROUND = 500;

export const toolCallsSoak: Soak = { name: "tool-calls", run };

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const server = await startServerProcess({ repositories: [EXAMPLES] });
  try {
    let [answers, calls, cut] = [0, 0, 0];
    for (let round = 0; performance.now() < deadlineMs; round += 1) {
      const counts = await runRandomCalls(server, seed + round, PER_ROUND);
      answers += counts.answers;
      calls += counts.calls;
      cut += counts.cut;
    }
    await server.stop();
    return { answers, calls, cut };
  } finally {
    await server.kill();
  }
}
