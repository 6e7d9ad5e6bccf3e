import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fakeConfig, fakeInput, fakeOutput } from "../../../../tests/fakes/model-config.ts";
import { collect, fakeRequest, int32 } from "../../../../tests/fakes/requests.ts";
import { VirtualClock } from "../../../../tests/scheduling/virtual-clock.ts";
import type { Batch, ModelInstance } from "../../backend/backend.ts";
import type { ModelConfig, ModelDynamicBatching } from "../../core/model-config.ts";
import { signatureOf } from "../../core/model-signature.ts";
import { ServerError } from "../../core/server-error.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../observe/log.ts";
import { type Clock, SYSTEM_CLOCK } from "../clock.ts";
import { StatisticsCounter } from "../model-statistics.ts";
import { ScheduledRequest } from "../scheduled-request.ts";
import { BatchScheduler } from "./batch-scheduler.ts";

const SILENT = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_info: false, log_error: false });

const BATCHING: ModelDynamicBatching = {
  preferred_batch_size: [4],
  max_queue_delay_microseconds: 0,
  preserve_ordering: false,
  priority_levels: 0,
  default_priority_level: 0,
  priority_queue_policy: {},
};

/** Echoes X as Y, batch by batch, each when the test lets it go. */
class GatedInstance implements ModelInstance {
  readonly batches: number[][] = [];
  readonly name: string = "m_0";
  #gates: (() => void)[] = [];

  execute(batch: Batch): Promise<void> {
    this.batches.push(batch.requests.map(({ request }) => request.inputs[0]?.data[0] ?? -1));
    return new Promise((resolve) => {
      this.#gates.push(() => {
        for (const { request, respond } of batch.requests.map((r) => ({
          request: r.request,
          respond: r.respond.bind(r),
        }))) {
          respond({ outputs: request.inputs.map((input) => ({ ...input, name: "Y" })), final: true });
        }
        resolve();
      });
    });
  }

  open(): void {
    this.#gates.shift()?.();
  }

  isReady(): boolean {
    return true;
  }

  async close(): Promise<void> {
    await Promise.resolve();
  }
}

function setUp(changes: Partial<ModelConfig>, instances: readonly ModelInstance[], clock: Clock = SYSTEM_CLOCK) {
  const config = fakeConfig({
    max_batch_size: 4,
    input: [fakeInput("X", [1])],
    output: [fakeOutput("Y", [1])],
    ...changes,
  });
  const statistics = new StatisticsCounter();
  const signature = signatureOf(config);
  const scheduler = new BatchScheduler({ config, signature, instances, statistics, log: SILENT, clock });
  const context = { signature, version: "1", statistics, decoupled: false, reshapesOutputs: false, clock };
  const send = (value: number, request: Partial<Parameters<typeof fakeRequest>[1]> = {}) => {
    const scheduled = new ScheduledRequest(fakeRequest([int32("X", [1, 1], [value])], request), 1, context);
    scheduler.enqueue(scheduled);
    return scheduled;
  };
  return { scheduler, statistics, send };
}

test("BatchScheduler batches what piled up while the instance was busy", async () => {
  const instance = new GatedInstance();
  const { send, statistics } = setUp({ dynamic_batching: BATCHING }, [instance]);
  const streams = [1, 2, 3, 4, 5, 6].map((value) => collect(send(value).stream));
  assert.deepEqual(instance.batches, [[1]]);
  for (let i = 0; i < 3; i += 1) {
    instance.open();
    await sleep(1);
  }
  assert.deepEqual(instance.batches, [[1], [2, 3, 4, 5], [6]]);
  const answers = await Promise.all(streams);
  assert.deepEqual(
    answers.map(([response]) => response?.outputs[0]?.data[0]),
    [1, 2, 3, 4, 5, 6],
  );
  const { inference_count, execution_count, batch_stats, inference_stats } = statistics.snapshot("m", "1");
  assert.deepEqual([inference_count, execution_count, inference_stats.queue.count], [6, 3, 6]);
  assert.deepEqual(
    batch_stats.map(({ batch_size, compute_infer }) => [batch_size, compute_infer.count]),
    [
      [1, 2],
      [4, 1],
    ],
  );
});

test("BatchScheduler without dynamic batching gives each request an execution and uses every instance", async () => {
  const instances = [new GatedInstance(), new GatedInstance()];
  const { send } = setUp({}, instances);
  const streams = [1, 2, 3].map((value) => collect(send(value).stream));
  assert.deepEqual(
    instances.map(({ batches }) => batches),
    [[[1]], [[2]]],
  );
  instances[1]?.open();
  await sleep(1);
  assert.deepEqual(
    instances.map(({ batches }) => batches),
    [[[1]], [[2], [3]]],
  );
  instances[0]?.open();
  instances[1]?.open();
  await Promise.all(streams);
});

test("BatchScheduler waits for the queue delay and then sends what is there", async () => {
  const instance = new GatedInstance();
  const { send } = setUp({ dynamic_batching: { ...BATCHING, max_queue_delay_microseconds: 200_000 } }, [instance]);
  const streams = [1, 2].map((value) => collect(send(value).stream));
  assert.deepEqual(instance.batches, []);
  while (instance.batches.length === 0) await sleep(1);
  assert.deepEqual(instance.batches, [[1, 2]]);
  instance.open();
  await Promise.all(streams);
});

test("BatchScheduler refuses at a full queue and answers a request whose time in the queue is over", async () => {
  const policy = {
    timeout_action: "REJECT",
    default_timeout_microseconds: 2000,
    allow_timeout_override: false,
    max_queue_size: 1,
  } as const;
  const instance = new GatedInstance();
  // On the system's clock a pause of 2 ms between two lines would end the first request in the queue too.
  const clock = new VirtualClock();
  const batching = { ...BATCHING, default_queue_policy: policy };
  const { send, statistics } = setUp({ dynamic_batching: batching }, [instance], clock);
  const first = collect(send(1).stream);
  const late = collect(send(2).stream);
  assert.throws(() => send(3, { id: "x" }), {
    code: "unavailable",
    message: "[request id: x] Exceeds maximum queue size",
  });
  const rejected = assert.rejects(late, {
    code: "unavailable",
    message: "Request timeout expired",
    reason: "REJECTED",
    wasQueued: true,
  });
  while (clock.step());
  await rejected;
  instance.open();
  await first;
  assert.equal(statistics.failures.REJECTED, 2);
  assert.equal(statistics.snapshot("m", "1").inference_stats.fail.count, 1);
  assert.equal(statistics.pending, 0);
});

test("BatchScheduler moves a late request behind the timely ones when the policy says DELAY", async () => {
  const policy = {
    timeout_action: "DELAY",
    default_timeout_microseconds: 200_000,
    allow_timeout_override: false,
    max_queue_size: 0,
  } as const;
  const instance = new GatedInstance();
  const { send } = setUp(
    { max_batch_size: 1, dynamic_batching: { ...BATCHING, preferred_batch_size: [1], default_queue_policy: policy } },
    [instance],
  );
  const streams = [collect(send(1).stream), collect(send(2).stream)];
  await sleep(250);
  streams.push(collect(send(3).stream));
  for (let i = 0; i < 3; i += 1) {
    instance.open();
    await sleep(1);
  }
  await Promise.all(streams);
  assert.deepEqual(instance.batches, [[1], [3], [2]]);
});

test("BatchScheduler serves higher priorities first", async () => {
  const instance = new GatedInstance();
  const batching = { ...BATCHING, preferred_batch_size: [1], priority_levels: 2, default_priority_level: 2 };
  const { send } = setUp({ max_batch_size: 1, dynamic_batching: batching }, [instance]);
  const streams = [send(1), send(2), send(3, { priority: 1 }), send(4, { priority: 9 })].map(({ stream }) =>
    collect(stream),
  );
  for (let i = 0; i < 4; i += 1) {
    instance.open();
    await sleep(1);
  }
  await Promise.all(streams);
  assert.deepEqual(instance.batches, [[1], [3], [2], [4]]);
});

test("BatchScheduler ends a request that was cancelled while it waited and does not run it", async () => {
  const instance = new GatedInstance();
  const { send, statistics } = setUp({}, [instance]);
  const gone = new AbortController();
  const first = collect(send(1).stream);
  const second = collect(send(2, { signal: gone.signal }).stream);
  gone.abort();
  instance.open();
  await first;
  await assert.rejects(second, { code: "cancelled" });
  assert.deepEqual(instance.batches, [[1]]);
  assert.equal(statistics.failures.CANCELED, 1);
});

test("BatchScheduler keeps the order of arrival over several instances when asked to", async () => {
  const instances = [new GatedInstance(), new GatedInstance()];
  const { send } = setUp(
    { max_batch_size: 1, dynamic_batching: { ...BATCHING, preferred_batch_size: [1], preserve_ordering: true } },
    instances,
  );
  const order: number[] = [];
  const streams = [1, 2].map((value) => collect(send(value).stream).then(() => order.push(value)));
  instances[1]?.open();
  await sleep(2);
  assert.deepEqual(order, []);
  instances[0]?.open();
  await Promise.all(streams);
  assert.deepEqual(order, [1, 2]);
});

test("BatchScheduler fails a batch once when its instance throws, and goes on", async () => {
  let calls = 0;
  const instance: ModelInstance = {
    name: "m_0",
    execute(batch) {
      calls += 1;
      if (calls === 1) throw new Error("secret detail");
      if (calls === 2) return Promise.reject(new ServerError("internal", "shown"));
      if (calls === 3) return undefined;
      for (const request of batch.requests) request.respond({ outputs: [], final: true });
      return undefined;
    },
    isReady: () => true,
    close: async () => undefined,
  };
  const { send, statistics } = setUp({}, [instance]);
  await assert.rejects(collect(send(1).stream), { code: "internal", message: "Internal error", reason: "BACKEND" });
  await assert.rejects(collect(send(2).stream), { message: "shown" });
  await assert.rejects(collect(send(3).stream), /without answering/);
  assert.equal((await collect(send(4).stream)).length, 1);
  assert.equal(statistics.failures.BACKEND, 3);
});

test("drain() refuses new requests and waits for the accepted", async () => {
  const instance = new GatedInstance();
  const { scheduler, send } = setUp({}, [instance]);
  const first = collect(send(1).stream);
  let drained = false;
  const draining = scheduler.drain().then(() => {
    drained = true;
  });
  assert.throws(() => send(2), { code: "unavailable", message: /has stopped accepting new inference requests/ });
  await sleep(2);
  assert.equal(drained, false);
  instance.open();
  await Promise.all([first, draining]);
});
