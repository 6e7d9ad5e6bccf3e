/** Ten thousand random requests of 64 clients to a language-model pipeline, as often as the time allows: every answer accounted for, memory flat. */
import assert from "node:assert/strict";
import { expectIdle, expectSameBooks, readPage, residentOfAll, runLoad } from "../support/llm-load.ts";
import { createPipeline } from "../support/llm-pipeline.ts";
import { startServerProcess } from "../support/server-process.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const REQUESTS = 10_000;
const CLIENTS = 64;
/** After the first third, when every buffer and cache has grown to its size. */
const WARM_TENTH = 3;
const MAX_GROWTH_BYTES = 64 * 1024 * 1024;
const MIB = 1024 * 1024;
/** A cache that is too small for all at once: sequences wait, and some are computed again. */
const ENGINE =
  "max_beam_width:4,exclude_input_in_output:True,max_tokens_in_paged_kv_cache:1024,batch_scheduler_policy:max_utilization";

export const pipelineSoak: Soak = { name: "pipeline", run };

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  await using repository = await createPipeline({ tensorrt_llm: ENGINE });
  const server = await startServerProcess({ repositories: [repository.path] });
  try {
    const totals = { rounds: 0, sent: 0, answered: 0, refused: 0, left: 0, leftMidway: 0 };
    const residentMib: number[] = [];
    do {
      const before = await readPage(server);
      const books = await runLoad(server, {
        seed: seed + totals.rounds,
        requests: REQUESTS,
        clients: CLIENTS,
        onTenth: async () => {
          residentMib.push(Math.round((await residentOfAll(server)) / MIB));
        },
      });
      expectSameBooks(books, before, await expectIdle(server));
      totals.rounds += 1;
      for (const page of books.values()) {
        totals.sent += page.sent;
        totals.answered += page.answered;
        totals.refused += page.refused;
        totals.left += page.left;
        totals.leftMidway += page["left midway"];
      }
    } while (performance.now() < deadlineMs);
    const warmMib = residentMib[WARM_TENTH - 1] ?? 0;
    const endMib = residentMib.at(-1) ?? 0;
    assert.ok((endMib - warmMib) * MIB < MAX_GROWTH_BYTES, `memory grew: ${residentMib.join(", ")} MiB`);
    const page = await readPage(server);
    const preemptions = page.get("vllm:num_preemptions_total")?.series[0]?.value ?? 0;
    await server.stop();
    return {
      ...totals,
      preemptions,
      residentMibWarm: warmMib,
      residentMibMost: Math.max(...residentMib),
      residentMibEnd: endMib,
    };
  } finally {
    await server.kill();
  }
}
