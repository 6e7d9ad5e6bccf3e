import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fuzz } from "../support/fuzz-http.ts";
import { KeepAliveClient } from "../support/hostile-http.ts";
import { testSize } from "../support/long-tests.ts";
import { EXAMPLES } from "../support/model-repository.ts";
import { assertSound, eventually, readMetric, residentBytes } from "../support/probe-server.ts";
import { createRandom } from "../support/random.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const NUM_REQUESTS = testSize(4000, 20_000);
const NUM_CONNECTIONS = 32;
const MAX_GROWTH_BYTES = 300 * 1024 * 1024;

let server: ServerProcess;
before(async () => {
  server = await startServerProcess({
    repositories: [EXAMPLES],
    flags: ["--model-control-mode=explicit", "--load-model=*"],
  });
});
after(() => server.stop());

test("broken requests over kept connections are all answered and leave nothing behind", async () => {
  using client = new KeepAliveClient(server.http, NUM_CONNECTIONS);
  const random = createRandom(20_251_121);
  await fuzz(client, random, NUM_REQUESTS / 4, NUM_CONNECTIONS);
  const bytesBefore = await residentBytes(server.pid);
  await fuzz(client, random, (NUM_REQUESTS * 3) / 4, NUM_CONNECTIONS);
  await assertSound(server);
  const growth = (await residentBytes(server.pid)) - bytesBefore;
  assert.ok(growth < MAX_GROWTH_BYTES, `memory grew by ${growth} bytes`);
  await eventually(
    () => readMetric(server, "nv_inference_pending_request_count"),
    (pending) => pending === 0,
  );
  await eventually(
    () => readMetric(server, "nv_trt_llm_request_metrics", '"active"'),
    (active) => active === 0,
  );
});
