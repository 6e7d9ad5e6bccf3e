import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { killClients, openStream } from "../support/llm-clients.ts";
import { testSize } from "../support/long-tests.ts";
import { EXAMPLES } from "../support/model-repository.ts";
import { assertSound, eventually, readMetric, residentBytes } from "../support/probe-server.ts";
import { createRandom } from "../support/random.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const NUM_CLIENTS = testSize(60, 200);
const MAX_GROWTH_BYTES = 64 * 1024 * 1024;

let server: ServerProcess;
before(async () => {
  server = await startServerProcess({ repositories: [EXAMPLES] });
});
after(() => server.stop());

async function untilIdle(): Promise<void> {
  const gauges: readonly [family: string, ...labels: string[]][] = [
    ["nv_trt_llm_request_metrics", '"active"'],
    ["nv_trt_llm_request_metrics", '"waiting"'],
    ["nv_trt_llm_kv_cache_block_metrics", '"used"'],
    ["nv_inference_pending_request_count"],
  ];
  for (const [family, ...labels] of gauges) {
    await eventually(
      () => readMetric(server, family, ...labels),
      (value) => value === 0,
    );
  }
}

test("clients that are killed in the middle of their stream leave no work, no cache blocks and no memory behind", async () => {
  const random = createRandom(99);
  await killClients(server, NUM_CLIENTS, random);
  await untilIdle();
  const bytesBefore = await residentBytes(server.pid);
  const survivor = openStream(server.http, 300);
  await killClients(server, NUM_CLIENTS, random);
  const { status, events, isCut } = await survivor.outcome;
  assert.deepEqual([status, isCut], [200, false]);
  assert.ok(
    events.every((event) => !event.includes('"error"')),
    events.at(-1),
  );
  await untilIdle();
  const growth = (await residentBytes(server.pid)) - bytesBefore;
  assert.ok(growth < MAX_GROWTH_BYTES, `memory grew by ${growth} bytes`);
  const cancelled = await readMetric(server, "nv_inference_request_failure", '"ensemble"', '"CANCELED"');
  assert.ok(cancelled > NUM_CLIENTS / 2, `${cancelled} requests counted as cancelled`);
  await assertSound(server);
});
