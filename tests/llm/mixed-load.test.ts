/** A language-model pipeline under random requests of many clients, some of which leave: nothing is lost, nothing is held. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { expectIdle, expectSameBooks, readPage, runLoad } from "../support/llm-load.ts";
import { createPipeline } from "../support/llm-pipeline.ts";
import { testSize } from "../support/long-tests.ts";
import { sumOf } from "../support/prometheus-text.ts";
import { startServerProcess } from "../support/server-process.ts";

const ENGINE =
  "max_beam_width:4,exclude_input_in_output:True,max_tokens_in_paged_kv_cache:1024,batch_scheduler_policy:max_utilization";

const NUM_REQUESTS = testSize(120, 400);

test("a pipeline accounts for every one of the random requests of 32 clients and is idle afterwards", {
  timeout: 600_000,
}, async () => {
  await using repository = await createPipeline({ tensorrt_llm: ENGINE });
  const server = await startServerProcess({ repositories: [repository.path] });
  try {
    const before = await readPage(server);
    const books = await runLoad(server, { seed: 20_261_121, requests: NUM_REQUESTS, clients: 32 });
    const after = await expectIdle(server);
    expectSameBooks(books, before, after);
    assert.ok(
      sumOf(after, "vllm:num_preemptions_total") > 0,
      "the cache was never short: the test shows less than it should",
    );
    await server.stop();
  } finally {
    await server.kill();
  }
});
