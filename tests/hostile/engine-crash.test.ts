import assert from "node:assert/strict";
import process from "node:process";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { childrenOf } from "../support/child-processes.ts";
import { KeepAliveClient } from "../support/hostile-http.ts";
import { openStream } from "../support/llm-clients.ts";
import { EXAMPLES, SIMPLE_AND_PIPELINE } from "../support/model-repository.ts";
import { assertSound, eventually, readMetric } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const ENGINE_HOST = "engine-host";
/** More than the engine takes at once: some wait when it dies. */
const NUM_STREAMS = 80;
const NUM_TOKENS = 250;
const POLL_MS = 10;

let server: ServerProcess;
before(async () => {
  server = await startServerProcess({ repositories: [EXAMPLES], flags: SIMPLE_AND_PIPELINE });
});
after(() => server.stop());

/** Statuses of the liveness probe until it is stopped. */
function probe(path: string): { stop(): Promise<readonly number[]> } {
  const client = new KeepAliveClient(server.http, 1);
  const statuses: number[] = [];
  let isOver = false;
  const run = async (): Promise<void> => {
    while (!isOver) {
      statuses.push((await client.send({ method: "GET", path })).status);
      await sleep(POLL_MS);
    }
    client[Symbol.dispose]();
  };
  const running = run();
  return {
    async stop() {
      isOver = true;
      await running;
      return statuses;
    },
  };
}

for (const signal of ["SIGSEGV", "SIGKILL"] as const) {
  test(`${signal} of the engine host under load costs each started request one clear error and nothing else`, async () => {
    const [host = -1] = await childrenOf(server.pid, ENGINE_HOST);
    const live = probe("/v2/health/live");
    const ready = probe("/v2/health/ready");
    const streams = Array.from({ length: NUM_STREAMS }, () => openStream(server.http, NUM_TOKENS));
    let numEnded = 0;
    for (const { outcome } of streams) void outcome.then(() => numEnded++);
    // The engine has all of them: one that comes while there is no engine is refused.
    const inEngine = (): Promise<number> => readMetric(server, "nv_trt_llm_request_metrics", '"active"');
    await eventually(
      async () => ({
        numStarted: streams.filter((stream) => stream.received() > 2).length,
        numTaken: (await inEngine()) + numEnded,
      }),
      ({ numStarted, numTaken }) => numStarted >= 20 && numTaken >= NUM_STREAMS,
    );
    process.kill(host, signal);
    const outcomes = await Promise.all(streams.map(({ outcome }) => outcome));
    const [successor = -1] = await childrenOf(server.pid, ENGINE_HOST);
    await eventually(
      async () => (await fetch(`${server.baseUrl}/v2/health/ready`)).status,
      (status) => status === 200,
    );
    const liveStatuses = await live.stop();
    const readyStatuses = await ready.stop();

    assert.deepEqual([...new Set(liveStatuses)], [200]);
    assert.ok(readyStatuses.includes(400), "readiness never said that the engine was gone");
    assert.notEqual(successor, host);
    let numFailed = 0;
    for (const { events, isCut, status } of outcomes) {
      const errors = events.filter((event) => event.includes('"error"'));
      assert.equal(isCut, false, "a connection broke without a word");
      assert.ok(errors.length <= 1, errors.join("\n"));
      assert.ok(errors.length === 1 || status === 200, String(status));
      for (const error of errors) assert.match(error, new RegExp(`engine host .* ended unexpectedly .*${signal}`));
      numFailed += errors.length;
    }
    assert.ok(numFailed >= 20 && numFailed < NUM_STREAMS, `${numFailed} of ${NUM_STREAMS} failed`);
    await eventually(inEngine, (active) => active === 0);
    await assertSound(server);
  });
}
