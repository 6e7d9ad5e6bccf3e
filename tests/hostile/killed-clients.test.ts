import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { openSession } from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { openGrpcStream, openStream } from "../support/llm-clients.ts";
import { EXAMPLES } from "../support/model-repository.ts";
import { assertSound, eventually, readMetric, residentBytes } from "../support/probe-server.ts";
import { createRandom, type Random } from "../support/random.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const NUM_CLIENTS = 200;
const NUM_TOKENS = 1500;
const MAX_LIFE_MS = 1500;
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

/** Half of them over HTTP; a quarter cancel a gRPC stream, the last quarter drop the connection under theirs. */
async function killClients(random: Random): Promise<void> {
  const clients = Array.from({ length: NUM_CLIENTS }, async (_, i) => {
    const lifeMs = random.below(MAX_LIFE_MS);
    const session = i % 2 === 0 ? undefined : openSession(server.grpc);
    const hangUp =
      session === undefined ? openStream(server.http, NUM_TOKENS).destroy : openGrpcStream(session, NUM_TOKENS);
    await sleep(lifeMs);
    if (i % 4 !== 3) hangUp();
    session?.destroy();
  });
  await Promise.all(clients);
}

test("clients that are killed in the middle of their stream leave no work, no cache blocks and no memory behind", async () => {
  const random = createRandom(99);
  await killClients(random);
  await untilIdle();
  const bytesBefore = await residentBytes(server.pid);
  const survivor = openStream(server.http, 300);
  await killClients(random);
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
