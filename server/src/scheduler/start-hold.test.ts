import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fakeConfig, fakeInput, fakeOutput } from "../../../tests/fakes/model-config.ts";
import { collect, fakeRequest, int32 } from "../../../tests/fakes/requests.ts";
import { EchoInstance, fakeSequenceConfig, OLDEST, setUpSequences } from "../../../tests/fakes/sequences.ts";
import type { Batch, ModelInstance } from "../backend/backend.ts";
import type { ModelSequenceBatching } from "../core/model-config.ts";
import { signatureOf } from "../core/model-signature.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../observe/log.ts";
import { BatchScheduler } from "./batch/batch-scheduler.ts";
import { SYSTEM_CLOCK } from "./clock.ts";
import { StatisticsCounter } from "./model-statistics.ts";
import { ScheduledRequest } from "./scheduled-request.ts";
import { parseStartHold, type StartHold } from "./start-hold.ts";

const START = { start: true };
const log = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_info: false, log_error: false });

function sequences(batching: Partial<ModelSequenceBatching>, hold: StartHold, instanceCount = 1, maxBatchSize = 4) {
  const instances = Array.from({ length: instanceCount }, (_, i) => new EchoInstance(`m_${i}`));
  const config = fakeSequenceConfig(batching, { max_batch_size: maxBatchSize });
  const { send } = setUpSequences(config, instances, new Map(), hold);
  return { send, batches: () => instances.map(({ batches }) => batches) };
}

test("parseStartHold() reads numbers of requests and refuses the rest", () => {
  assert.deepEqual(parseStartHold({}), { queued: 0, backlog: 0 });
  const both = { TRITONSERVER_DELAY_SCHEDULER: "6", TRITONSERVER_BACKLOG_DELAY_SCHEDULER: "2" };
  assert.deepEqual(parseStartHold(both), { queued: 6, backlog: 2 });
  assert.deepEqual(parseStartHold({ TRITONSERVER_DELAY_SCHEDULER: "" }), { queued: 0, backlog: 0 });
  for (const text of ["x", "-1", "1.5", "1e3"]) {
    assert.throws(
      () => parseStartHold({ TRITONSERVER_DELAY_SCHEDULER: text }),
      new RegExp(`TRITONSERVER_DELAY_SCHEDULER: expected a number of requests, got '${text}'`),
    );
  }
});

test("BatchScheduler holds its first batch until enough requests wait, and none after it", async () => {
  const batches: number[] = [];
  const instance: ModelInstance = {
    name: "m_0",
    execute(batch: Batch) {
      batches.push(batch.requests.length);
      for (const request of batch.requests) request.respond({ outputs: [], final: true });
    },
    isReady: () => true,
    close: async () => undefined,
  };
  const batching = { preferred_batch_size: [], max_queue_delay_microseconds: 0, preserve_ordering: false };
  const levels = { priority_levels: 0, default_priority_level: 0, priority_queue_policy: {} };
  const config = fakeConfig({
    max_batch_size: 8,
    input: [fakeInput("X", [1])],
    output: [fakeOutput("Y", [1])],
    dynamic_batching: { ...batching, ...levels },
  });
  const statistics = new StatisticsCounter();
  const signature = signatureOf(config);
  const hold = { queued: 3, backlog: 0 };
  const scheduler = new BatchScheduler({ config, signature, instances: [instance], statistics, log, hold });
  const context = {
    signature,
    version: "1",
    statistics,
    decoupled: false,
    reshapesOutputs: false,
    clock: SYSTEM_CLOCK,
  };
  const send = () => {
    const request = new ScheduledRequest(fakeRequest([int32("X", [1, 1], [1])]), 1, context);
    scheduler.enqueue(request);
    return collect(request.stream);
  };
  const first = [send(), send()];
  for (let i = 0; i < 5; i += 1) await nextTurn();
  assert.deepEqual(batches, []);
  await Promise.all([...first, send()]);
  assert.deepEqual(batches, [3]);
  await send();
  assert.deepEqual(batches, [3, 1]);
});

test("the direct strategy counts the requests in the slots of all instances", async () => {
  const { send, batches } = sequences({}, { queued: 3, backlog: 0 }, 2, 1);
  const sent = [send(1n, 1, START), send(2n, 2, START)];
  for (let i = 0; i < 5; i += 1) await nextTurn();
  assert.deepEqual(batches(), [[], []]);
  sent.push(send(1n, 3));
  await Promise.all(sent.map(({ stream }) => collect(stream)));
  assert.deepEqual(batches(), [[["1:S1"], ["1:3"]], [["2:S2"]]]);
});

test("the direct strategy waits for the backlog too", async () => {
  const { send, batches } = sequences({}, { queued: 1, backlog: 1 }, 1, 1);
  const sent = [send(1n, 1, START), send(1n, 2, { end: true })];
  for (let i = 0; i < 5; i += 1) await nextTurn();
  assert.deepEqual(batches(), [[]]);
  sent.push(send(2n, 3, START));
  await Promise.all(sent.map(({ stream }) => collect(stream)));
  assert.deepEqual(batches(), [[["1:S1"], ["1:E2"], ["2:S3"]]]);
});

test("the oldest strategy counts the ready sequences of an instance", async () => {
  const { send, batches } = sequences({ oldest: { ...OLDEST, max_candidate_sequences: 4 } }, { queued: 2, backlog: 9 });
  const sent = [send(1n, 1, START), send(1n, 2)];
  for (let i = 0; i < 5; i += 1) await nextTurn();
  assert.deepEqual(batches(), [[]]);
  sent.push(send(2n, 3, START));
  await Promise.all(sent.map(({ stream }) => collect(stream)));
  assert.deepEqual(batches(), [[["1:S1", "2:S3"], ["1:2"]]]);
});
