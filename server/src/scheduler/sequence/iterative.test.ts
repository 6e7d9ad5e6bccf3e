import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeInput, fakeOutput } from "../../../../tests/fakes/model-config.ts";
import { createTestRepository } from "../../../../tests/fakes/model-repository.ts";
import { collect, fakeRequest, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import {
  fakeSequenceConfig,
  GatedInstance,
  OLDEST,
  rowText,
  setUpSequences,
} from "../../../../tests/fakes/sequences.ts";
import type { Batch } from "../../backend/backend.ts";
import { createIterativeSequenceBackend } from "../../backend/testing/iterative-sequence.ts";
import { ServerError } from "../../core/server-error.ts";

/** Gives each request back until it has run as often as its X says; answers with every run when the model is decoupled. */
class CountingInstance extends GatedInstance {
  readonly #left = new Map<unknown, number>();

  override execute(batch: Batch): Promise<void> {
    this.batches.push(batch.requests.map(({ request }) => rowText(request)));
    return new Promise((resolve) => {
      setImmediate(() => {
        for (const one of batch.requests) this.#step(one);
        resolve();
      });
    });
  }

  #step(one: Batch["requests"][number]): void {
    const [input] = one.request.inputs;
    if (input === undefined || rowText(one.request) === "-") return;
    const { id } = one.request.sequence;
    const left = (this.#left.get(id) ?? int32Values(input)[0] ?? 0) - 1;
    this.#left.set(id, left);
    if (left > 0) {
      one.reschedule?.();
      one.reschedule?.(); // once is enough
      one.respond({ outputs: [], final: true }); // too late: it is given back
      one.fail(new ServerError("internal", "too late"));
    } else one.respond({ outputs: [{ ...input, name: "Y" }], final: true });
  }
}

function iterative(changes: Parameters<typeof fakeSequenceConfig>[0] = {}) {
  return fakeSequenceConfig({ iterative_sequence: true, ...changes });
}

test("an iterative sequence runs a request until the backend ends it, START set the first time alone", async () => {
  const instance = new CountingInstance();
  const { send, statistics } = setUpSequences(iterative({ oldest: OLDEST }), [instance]);
  const [response, ...more] = await collect(send(7n, 3).stream);
  assert.deepEqual([int32Values(response?.outputs[0]), more.length], [[3], 0]);
  assert.deepEqual(instance.batches, [["7:S3"], ["7:3"], ["7:3"]]);
  const { execution_count, inference_count, inference_stats } = statistics.snapshot("m", "1");
  assert.deepEqual([execution_count, inference_count, inference_stats.success.count], [3, 1, 1]);
});

test("requests without an id get one each, and their executions are batched together", async () => {
  const instance = new CountingInstance();
  const { send } = setUpSequences(iterative({ oldest: OLDEST }), [instance]);
  const answers = await Promise.all([2, 1, 3].map((rounds) => collect(send(0n, rounds).stream)));
  assert.deepEqual(
    answers.map(([response]) => int32Values(response?.outputs[0])),
    [[2], [1], [3]],
  );
  assert.deepEqual(instance.batches, [["1:S2"], ["2:S1", "3:S3", "1:2"], ["3:3"], ["3:3"]]);
});

test("requests of the same id run one after the other, each from its start", async () => {
  const instance = new CountingInstance();
  const { send } = setUpSequences(iterative({ oldest: OLDEST }), [instance]);
  await Promise.all([send(5n, 2), send(5n, 2)].map(({ stream }) => collect(stream)));
  assert.deepEqual(instance.batches.slice(0, 3), [["5:S2"], ["5:2"], ["5:S2"]]);
});

test("a request that is cancelled while it runs is not run again", async () => {
  const instance = new CountingInstance();
  const { send, scheduler } = setUpSequences(iterative(), [instance]);
  const abort = new AbortController();
  const request = send(9n, 1000, { signal: abort.signal });
  const ended = collect(request.stream);
  abort.abort();
  await assert.rejects(ended, { code: "cancelled" });
  assert.equal(instance.batches.length, 1);
  await scheduler.drain();
});

test("drain() waits for a request that is still to run again", async () => {
  const instance = new CountingInstance();
  const { send, scheduler } = setUpSequences(iterative(), [instance]);
  const answer = collect(send(1n, 4).stream);
  await scheduler.drain();
  assert.equal(instance.batches.length, 4);
  await answer;
});

test("reschedule() is there for iterative sequences only", async () => {
  const seen: boolean[] = [];
  class Looking extends GatedInstance {
    override execute(batch: Batch): Promise<void> {
      seen.push(...batch.requests.map((request) => request.reschedule !== undefined));
      const running = super.execute(batch);
      void this.open();
      return running;
    }
  }
  for (const iterative_sequence of [true, false]) {
    const { send } = setUpSequences(fakeSequenceConfig({ iterative_sequence }), [new Looking()]);
    await collect(send(1n, 1, { start: true, end: true }).stream);
  }
  assert.deepEqual(seen, [true, false]);
});

test("implicit state goes from one execution to the next", async () => {
  class Adding extends GatedInstance {
    override async execute(batch: Batch): Promise<void> {
      await Promise.resolve();
      for (const one of batch.requests) {
        const value = (name: string) => int32Values(one.request.inputs.find((input) => input.name === name))[0] ?? 0;
        const sum = value("STATE_IN") + value("X");
        one.respond({
          outputs: [int32("Y", [1, 1], [sum]), int32("STATE_OUT", [1, 1], [sum])],
          final: sum >= 3 * value("X"),
        });
        if (sum < 3 * value("X")) one.reschedule?.();
      }
    }
  }
  const state = {
    input_name: "STATE_IN",
    output_name: "STATE_OUT",
    data_type: "TYPE_INT32" as const,
    dims: [1],
    initial_state: [],
    use_same_buffer_for_input_output: false,
    use_growable_memory: false,
  };
  const config = fakeSequenceConfig(
    { iterative_sequence: true, state: [state] },
    { input: [fakeInput("X", [1])], output: [fakeOutput("Y", [1])], model_transaction_policy: { decoupled: true } },
  );
  const { send } = setUpSequences(config, [new Adding()]);
  const responses = await collect(send(0n, 5).stream);
  assert.deepEqual(
    responses.map(({ outputs }) => int32Values(outputs[0])),
    [[5], [10], [15]],
  );
});

const CONFIG = `backend: "iterative_sequence"
max_batch_size: 4
model_transaction_policy { decoupled: true }
input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
sequence_batching {
  iterative_sequence: true
  control_input [
    { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
    { name: "CORRID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } ] }
  ]
}`;

test("the iterative_sequence backend answers one request as often as it asks, many side by side", async () => {
  const backends = [createIterativeSequenceBackend()];
  await using repository = createTestRepository({ "m/config.pbtxt": CONFIG, "m/1/.keep": "" }, backends);
  await repository.manager.load("m", {});
  const served = repository.registry.lookUp("m", "");
  const counts = [3, 1, 0, 7, 2, 5];
  const answers = await Promise.all(
    counts.map((count) => collect(served.infer(fakeRequest([int32("INPUT", [1, 1], [count])])))),
  );
  assert.deepEqual(
    answers.map((responses) => responses.flatMap(({ outputs }) => int32Values(outputs[0]))),
    counts.map((count) => Array.from({ length: count }, (_, i) => count - 1 - i)),
  );
});

test("the iterative_sequence backend needs no controls, and tells where requests are not rescheduled", async () => {
  const plain = CONFIG.replace(/ {2}control_input \[[\s\S]*\]\n\}/, "}");
  const files = {
    "m/config.pbtxt": plain,
    "m/1/.keep": "",
    "batched/config.pbtxt": plain.replace(/sequence_batching \{[\s\S]*\}/, "dynamic_batching { }"),
    "batched/1/.keep": "",
  };
  await using repository = createTestRepository(files, [createIterativeSequenceBackend()]);
  await repository.manager.load("m", {});
  await repository.manager.load("batched", {});
  const ask = (model: string) =>
    collect(repository.registry.lookUp(model, "").infer(fakeRequest([int32("INPUT", [1, 1], [3])])));
  const responses = await ask("m");
  assert.deepEqual(
    responses.map(({ outputs }) => int32Values(outputs[0])),
    [[2], [1], [0]],
  );
  await assert.rejects(ask("batched"), /Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE/);
});

test("a request that is cancelled between its runs holds back no answers of others", async () => {
  const instance = new CountingInstance();
  const config = iterative({ oldest: { ...OLDEST, preserve_ordering: true, max_queue_delay_microseconds: 1_000_000 } });
  const { send, scheduler } = setUpSequences({ ...config, max_batch_size: 2 }, [instance]);
  const abort = new AbortController();
  const first = collect(send(1n, 1000, { signal: abort.signal }).stream);
  const second = collect(send(2n, 2).stream);
  while (instance.batches.length < 2) await new Promise((resolve) => setImmediate(resolve));
  abort.abort();
  await assert.rejects(first, { code: "cancelled" });
  assert.equal((await second).length, 1);
  await scheduler.drain();
});
