import assert from "node:assert/strict";
import { test } from "node:test";
import type { BackendRequest, ModelInstance } from "../../server/src/backend/backend.ts";
import type { InferResponse } from "../../server/src/core/infer-response.ts";
import { signatureOf } from "../../server/src/core/model-signature.ts";
import { ServerError } from "../../server/src/core/server-error.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../server/src/observe/log.ts";
import { BatchScheduler } from "../../server/src/scheduler/batch/batch-scheduler.ts";
import type { ComposingModel } from "../../server/src/scheduler/ensemble/ensemble-run.ts";
import { StatisticsCounter } from "../../server/src/scheduler/model-statistics.ts";
import { ScheduledRequest } from "../../server/src/scheduler/scheduled-request.ts";
import { ensemble, type StepSpec } from "../fakes/ensembles.ts";
import { fakeConfig, fakeInput, fakeOutput } from "../fakes/model-config.ts";
import { int32, int32Values } from "../fakes/requests.ts";
import { dynamicBatching } from "./timeline.ts";
import { VirtualClock } from "./virtual-clock.ts";

interface QueuedModel {
  readonly inputs?: readonly string[];
  readonly maxQueueSize?: number;
  readonly runMs?: number;
  /** Answers so many times, so many ms apart. */
  readonly stream?: { readonly count: number; readonly everyMs: number };
  /** Leaves its output out. */
  readonly isSilent?: boolean;
}

/** A model with a queue of its own and one instance: Y is the sum of its inputs, or the numbers of a stream. */
function queued(clock: VirtualClock, name: string, options: QueuedModel = {}): ComposingModel {
  const { inputs = ["X"], maxQueueSize = 0, runMs = 0, stream, isSilent = false } = options;
  const config = fakeConfig({
    name,
    max_batch_size: 1,
    input: inputs.map((input) => fakeInput(input, [-1])),
    output: [fakeOutput("Y", [-1])],
    model_transaction_policy: { decoupled: stream !== undefined },
    dynamic_batching: dynamicBatching({
      preferred_batch_size: [1],
      default_queue_policy: {
        timeout_action: "REJECT",
        default_timeout_microseconds: 0,
        allow_timeout_override: false,
        max_queue_size: maxQueueSize,
      },
    }),
  });
  const answer = (one: BackendRequest, value: number, final: boolean): void =>
    one.respond({ outputs: isSilent ? [] : [int32("Y", [1, 1], [value])], final });
  const end = (one: BackendRequest): void => {
    if (stream === undefined) {
      answer(
        one,
        one.request.inputs.flatMap((input) => int32Values(input)).reduce((a, b) => a + b, 0),
        true,
      );
      return;
    }
    for (let k = 0; k < stream.count; k += 1) {
      clock.after(k * stream.everyMs, () => answer(one, k, k + 1 === stream.count));
    }
  };
  const instance: ModelInstance = {
    name,
    execute: ({ requests }) =>
      new Promise((resolve) => {
        clock.after(runMs, () => {
          for (const one of requests) end(one);
          resolve();
        });
      }),
    isReady: () => true,
    close: () => Promise.resolve(),
  };
  const signature = signatureOf(config);
  const statistics = new StatisticsCounter();
  const log = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_info: false, log_error: false });
  const scheduler = new BatchScheduler({ config, signature, instances: [instance], statistics, log, clock });
  const decoupled = stream !== undefined;
  const context = { signature, version: "1", statistics, decoupled, reshapesOutputs: false, clock };
  return {
    signature,
    submit(request, onTiming) {
      const scheduled = new ScheduledRequest(request, 1, context, onTiming);
      scheduler.enqueue(scheduled);
      return scheduled.stream;
    },
  };
}

/** Lets time go on until nothing is due; the ends are settled then. */
async function finish<T>(clock: VirtualClock, ends: Promise<T>[]): Promise<PromiseSettledResult<T>[]> {
  const settled = Promise.allSettled(ends);
  do {
    for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  } while (clock.step());
  return settled;
}

function valuesOf(responses: readonly InferResponse[]): number[] {
  return responses.flatMap(({ outputs }) => outputs.flatMap((output) => int32Values(output)));
}

const TWO_STEPS = [
  { model: "producer", inputs: { X: "IN" }, outputs: { Y: "mid" } },
  { model: "consumer", inputs: { X: "mid" }, outputs: { Y: "OUT" } },
];

for (const maxInFlight of [4, 1, 0]) {
  test(`sixteen streams at once pass through a slow step with max_inflight_requests ${maxInFlight}, one after the other too`, async () => {
    const clock = new VirtualClock();
    const models = {
      producer: queued(clock, "producer", { stream: { count: 8, everyMs: 1 } }),
      consumer: queued(clock, "consumer", { runMs: 10 }),
    };
    const { run, scheduler } = ensemble(TWO_STEPS, models, { outputs: ["OUT"], decoupled: ["producer"], maxInFlight });
    for (const together of [16, 1, 1, 1]) {
      const ends = await finish(
        clock,
        Array.from({ length: together }, () => run([5])),
      );
      for (const end of ends) {
        assert.equal(end.status, "fulfilled");
        assert.deepEqual(valuesOf(end.status === "fulfilled" ? end.value : []), [0, 1, 2, 3, 4, 5, 6, 7]);
      }
      assert.equal(scheduler.inFlight, 0);
    }
  });
}

test("a client that leaves in the middle of a stream that is held back ends it, and nothing stays behind", async () => {
  const clock = new VirtualClock();
  const models = {
    producer: queued(clock, "producer", { stream: { count: 32, everyMs: 1 } }),
    consumer: queued(clock, "consumer", { runMs: 10 }),
  };
  const { run, scheduler } = ensemble(TWO_STEPS, models, { outputs: ["OUT"], decoupled: ["producer"], maxInFlight: 4 });
  const abort = new AbortController();
  clock.after(45, () => abort.abort());
  const [end] = await finish(clock, [run([5], { signal: abort.signal })]);
  assert.equal(end?.status, "rejected");
  assert.equal(ServerError.from(end.status === "rejected" ? end.reason : undefined).code, "cancelled");
  assert.equal(scheduler.inFlight, 0);
});

test("a full queue of the first step refuses some requests whole, and the others are answered", async () => {
  const clock = new VirtualClock();
  const models = {
    producer: queued(clock, "producer", { stream: { count: 1, everyMs: 1 }, maxQueueSize: 4, runMs: 5 }),
    consumer: queued(clock, "consumer", { runMs: 10 }),
  };
  const { run } = ensemble(TWO_STEPS, models, { outputs: ["OUT"], decoupled: ["producer"] });
  const ends = await finish(
    clock,
    Array.from({ length: 32 }, () => run([5])),
  );
  const refused = ends.flatMap((end) => (end.status === "rejected" ? [ServerError.from(end.reason).message] : []));
  assert.equal(refused.length, 27);
  assert.deepEqual(
    new Set(refused),
    new Set(["in ensemble 'e', [request id: <id_unknown>] Exceeds maximum queue size"]),
  );
  assert.equal(ends.filter((end) => end.status === "fulfilled" && valuesOf(end.value)[0] === 0).length, 5);
});

test("a full queue behind a stream ends it once, after the answers that came before", async () => {
  const clock = new VirtualClock();
  const models = {
    producer: queued(clock, "producer", { stream: { count: 32, everyMs: 100 } }),
    consumer: queued(clock, "consumer", { runMs: 240, maxQueueSize: 4 }),
  };
  const { streams, scheduler } = streaming(clock, models, TWO_STEPS);
  const [end] = await streams([5]);
  assert.deepEqual(end?.values, [0, 1]);
  assert.match(end?.error ?? "", /^in ensemble 'e', .*Exceeds maximum queue size$/);
  assert.equal(scheduler.inFlight, 0);
});

test("of two branches behind a stream one fills up: what was joined before is answered, then one error", async () => {
  const clock = new VirtualClock();
  const models = {
    producer: queued(clock, "producer", { stream: { count: 32, everyMs: 100 } }),
    slow: queued(clock, "slow", { runMs: 120, maxQueueSize: 1 }),
    fast: queued(clock, "fast"),
    join: queued(clock, "join", { inputs: ["A", "B"] }),
  };
  const { streams, scheduler } = streaming(clock, models, [
    { model: "producer", inputs: { X: "IN" }, outputs: { Y: "mid" } },
    { model: "slow", inputs: { X: "mid" }, outputs: { Y: "s" } },
    { model: "fast", inputs: { X: "mid" }, outputs: { Y: "f" } },
    { model: "join", inputs: { A: "s", B: "f" }, outputs: { Y: "OUT" } },
  ]);
  for (let round = 0; round < 3; round += 1) {
    const [end] = await streams([5]);
    assert.ok((end?.values.length ?? 0) > 0);
    assert.deepEqual(
      end?.values,
      end?.values.map((_, k) => 2 * k),
    );
    assert.match(end?.error ?? "", /Exceeds maximum queue size$/);
    assert.equal(scheduler.inFlight, 0);
  }
});

test("an output that its model leaves out is left out of the answer", async () => {
  const clock = new VirtualClock();
  const models = { loud: queued(clock, "loud"), silent: queued(clock, "silent", { isSilent: true }) };
  const steps = [
    { model: "loud", inputs: { X: "IN" }, outputs: { Y: "OUTPUT0" } },
    { model: "silent", inputs: { X: "IN" }, outputs: { Y: "OUTPUT1" } },
  ];
  const { run } = ensemble(steps, models, { outputs: ["OUTPUT0", "OUTPUT1"] });
  const [end] = await finish(clock, [run([5])]);
  assert.deepEqual(end?.status === "fulfilled" ? end.value.map(({ outputs }) => outputs.map(({ name }) => name)) : [], [
    ["OUTPUT0"],
  ]);
});

test("the flags of a sequence reach every step, and the client again with the answer", async () => {
  const clock = new VirtualClock();
  const seen: unknown[] = [];
  const step = queued(clock, "step");
  const watched: ComposingModel = {
    signature: step.signature,
    submit(request, onTiming) {
      seen.push(request.sequence);
      return step.submit(request, onTiming);
    },
  };
  const steps = [
    { model: "watched", inputs: { X: "IN" }, outputs: { Y: "mid" } },
    { model: "watched", inputs: { X: "mid" }, outputs: { Y: "OUT" } },
  ];
  const { run } = ensemble(steps, { watched }, { outputs: ["OUT"] });
  const sequences = [
    { id: 7n, start: true, end: false },
    { id: 7n, start: false, end: false },
    { id: 7n, start: false, end: true },
  ];
  for (const sequence of sequences) {
    const [end] = await finish(clock, [run([5], { sequence })]);
    assert.deepEqual(
      end?.status === "fulfilled" ? end.value.map(({ parameters }) => Object.fromEntries(parameters)) : [],
      [{ sequence_id: 7, sequence_start: sequence.start, sequence_end: sequence.end }],
    );
  }
  assert.deepEqual(
    seen,
    sequences.flatMap((sequence) => [sequence, sequence]),
  );
});

/** As `ensemble`, with what came before an error. */
function streaming(clock: VirtualClock, models: Readonly<Record<string, ComposingModel>>, steps: readonly StepSpec[]) {
  const { stream, scheduler } = ensemble(steps, models, { outputs: ["OUT"], decoupled: ["producer"] });
  const read = async (values: readonly number[]): Promise<{ values: number[]; error: string }> => {
    const seen: number[] = [];
    try {
      for await (const response of stream(values)) seen.push(...valuesOf([response]));
      return { values: seen, error: "" };
    } catch (error) {
      return { values: seen, error: ServerError.from(error).message };
    }
  };
  return {
    scheduler,
    streams: async (...inputs: readonly (readonly number[])[]) => {
      const ends = await finish(clock, inputs.map(read));
      return ends.flatMap((end) => (end.status === "fulfilled" ? [end.value] : []));
    },
  };
}
