import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { fakeInput } from "../../../../tests/fakes/model-config.ts";
import { int32 } from "../../../../tests/fakes/requests.ts";
import {
  answers,
  EchoInstance,
  fakeSequenceConfig,
  GatedInstance,
  OLDEST,
  setUpSequences,
} from "../../../../tests/fakes/sequences.ts";
import type { ModelSequenceBatching } from "../../core/model-config.ts";
import { ServerError } from "../../core/server-error.ts";

const START = { start: true };
const END = { end: true };
const BOTH = { start: true, end: true };
const CANCELLED = "[request id: <id_unknown>] Request was cancelled";

function gated(batching: Partial<ModelSequenceBatching> = {}, maxBatchSize = 4) {
  const instance = new GatedInstance();
  const config = fakeSequenceConfig(batching, { max_batch_size: maxBatchSize });
  return { instance, ...setUpSequences(config, [instance]) };
}

async function openAll(instance: GatedInstance, batches: number): Promise<void> {
  for (let i = 0; i < batches; i += 1) await instance.open();
}

test("SequenceScheduler runs the requests of a sequence one after the other and marks first and last", async () => {
  const { instance, send } = gated();
  const sent = [send(7n, 1, START), send(7n, 2), send(7n, 3, END)];
  assert.deepEqual(instance.batches, [["7:S1"]]);
  await openAll(instance, 3);
  assert.deepEqual(instance.batches, [["7:S1"], ["7:2"], ["7:E3"]]);
  assert.deepEqual(await answers(sent), [1, 2, 3]);
});

test("SequenceScheduler (direct) keeps each sequence in its row and fills rows without a request", async () => {
  const { instance, send } = gated();
  const sent = [send(1n, 10, START), send(2n, 20, START), send(3n, 30, START)];
  await instance.open();
  sent.push(send(3n, 31));
  await openAll(instance, 2);
  sent.push(send(1n, 11, END), send(3n, 32, END));
  await openAll(instance, 2);
  assert.deepEqual(instance.batches, [
    ["1:S10"],
    ["-", "2:S20", "3:S30"],
    ["-", "-", "3:31"],
    ["1:E11", "-", "-"],
    ["-", "-", "3:E32"],
  ]);
  assert.deepEqual(await answers(sent), [10, 20, 30, 31, 11, 32]);
});

test("SequenceScheduler (direct) counts rows in batches but only requests as inferences", async () => {
  const { instance, send, statistics } = gated();
  const sent = [send(1n, 10, START), send(2n, 20, START)];
  await openAll(instance, 2);
  await answers(sent);
  const { inference_count, execution_count, batch_stats, inference_stats } = statistics.snapshot("m", "1");
  assert.deepEqual([inference_count, execution_count, inference_stats.success.count], [2, 2, 2]);
  assert.deepEqual(
    batch_stats.map(({ batch_size }) => batch_size),
    [1, 2],
  );
});

test("SequenceScheduler (direct) waits for the share of slots that is asked for", async () => {
  const direct = { max_queue_delay_microseconds: 60_000_000, minimum_slot_utilization: 0.5 };
  const { instance, send } = gated({ direct });
  const sent = [send(1n, 1, BOTH)];
  await sleep(5);
  // On a busy machine the sleep can end within the turn of the first request, and the second would wait for the turn's end.
  await nextTurn();
  assert.deepEqual(instance.batches, []);
  sent.push(send(2n, 2, BOTH));
  assert.deepEqual(instance.batches, [["1:SE1", "2:SE2"]]);
  await instance.open();
  assert.deepEqual(await answers(sent), [1, 2]);
});

test("SequenceScheduler (direct) goes with less when the queue delay is over", async () => {
  const direct = { max_queue_delay_microseconds: 2000, minimum_slot_utilization: 1 };
  const config = fakeSequenceConfig({ direct });
  const { send } = setUpSequences(config, [new EchoInstance()]);
  assert.deepEqual(await answers([send(1n, 1, BOTH)]), [1]);
});

test("SequenceScheduler (direct) leaves a request of another shape for the next round", async () => {
  const instance = new GatedInstance();
  const config = fakeSequenceConfig({}, { input: [fakeInput("X", [-1])] });
  const { send } = setUpSequences(config, [instance]);
  const wide = { ...BOTH, inputs: [int32("X", [1, 2], [8, 9])] };
  const sent = [send(1n, 1, BOTH), send(2n, 2, BOTH), send(3n, 0, wide), send(4n, 4, BOTH)];
  await openAll(instance, 3);
  assert.deepEqual(instance.batches, [["1:SE1"], ["-", "2:SE2", "-", "4:SE4"], ["-", "-", "3:SE8"]]);
  assert.deepEqual(await answers(sent), [1, 2, 8, 4]);
});

test("SequenceScheduler (oldest) batches whatever sequences have a request, without empty rows", async () => {
  const { instance, send } = gated({ oldest: { ...OLDEST, max_candidate_sequences: 3 } });
  const sent = [send(1n, 10, START), send(1n, 11, END), send(2n, 20, BOTH), send(3n, 30, BOTH)];
  await openAll(instance, 2);
  assert.deepEqual(instance.batches, [["1:S10"], ["2:SE20", "3:SE30", "1:E11"]]);
  await instance.open();
  assert.deepEqual(await answers(sent), [10, 11, 20, 30]);
});

test("SequenceScheduler (oldest) waits for a preferred size as long as the delay allows", async () => {
  const oldest = { ...OLDEST, preferred_batch_size: [2], max_queue_delay_microseconds: 60_000_000 };
  const { instance, send } = gated({ oldest });
  const sent = [send(1n, 1, BOTH)];
  await sleep(5);
  // On a busy machine the sleep can end within the turn of the first request, and the second would wait for the turn's end.
  await nextTurn();
  assert.deepEqual(instance.batches, []);
  sent.push(send(2n, 2, BOTH));
  assert.deepEqual(instance.batches, [["1:SE1", "2:SE2"]]);
  await instance.open();
  assert.deepEqual(await answers(sent), [1, 2]);
});

test("SequenceScheduler (oldest) takes one sequence at a time where the model does not batch", async () => {
  const { instance, send } = gated({ oldest: { ...OLDEST, max_candidate_sequences: 2 } }, 0);
  const sent = [send(1n, 1, BOTH), send(2n, 2, BOTH), send(3n, 3, BOTH)];
  await openAll(instance, 3);
  assert.deepEqual(instance.batches, [["1:SE1"], ["2:SE2"], ["3:SE3"]]);
  assert.deepEqual(await answers(sent), [1, 2, 3]);
});

test("SequenceScheduler lets sequences without a slot wait, oldest first, with all of their requests", async () => {
  const { instance, send } = gated({}, 0);
  const sent = [send(1n, 10, START), send(2n, 20, START), send(3n, 30, BOTH), send(2n, 21, END), send(1n, 11, END)];
  await openAll(instance, 5);
  assert.deepEqual(instance.batches.flat(), ["1:S10", "1:E11", "2:S20", "2:E21", "3:SE30"]);
  assert.deepEqual(await answers(sent), [10, 20, 30, 21, 11]);
});

test("SequenceScheduler spreads sequences over the instances and keeps each where it began", async () => {
  const instances = [new EchoInstance("m_0"), new EchoInstance("m_1")];
  const { send } = setUpSequences(fakeSequenceConfig(), instances);
  for (const [id, value, flags] of [
    [1n, 10, START],
    [2n, 20, START],
    [3n, 30, BOTH],
    [2n, 21, END],
    [1n, 11, END],
  ] as const) {
    await answers([send(id, value, flags)]);
  }
  assert.deepEqual(
    instances.map(({ batches }) => batches),
    [
      [["1:S10"], ["-", "3:SE30"], ["1:E11"]],
      [["2:S20"], ["2:E21"]],
    ],
  );
});

test("SequenceScheduler begins a sequence anew when START comes again, after what it had queued", async () => {
  const { instance, send, warnings } = gated();
  const sent = [send(1n, 10, START), send(1n, 11), send(1n, 20, START), send(1n, 21, END)];
  await openAll(instance, 4);
  assert.deepEqual(instance.batches.flat(), ["1:S10", "1:11", "1:S20", "1:E21"]);
  assert.deepEqual(await answers(sent), [10, 11, 20, 21]);
  assert.deepEqual(warnings, [
    "sequence 1 for model 'm' has a conflict. The previous sequence did not end before this sequence start. Previous sequence will be terminated early.",
  ]);
});

test("SequenceScheduler never runs two sequences of one id at once", async () => {
  const { instance, send, warnings } = gated();
  const sent = [send(1n, 10, START), send(1n, 11, END), send(1n, 20, START), send(1n, 21, END)];
  await openAll(instance, 4);
  assert.deepEqual(instance.batches, [["1:S10"], ["1:E11", "-"], ["-", "1:S20"], ["-", "1:E21"]]);
  assert.deepEqual(await answers(sent), [10, 11, 20, 21]);
  assert.deepEqual(warnings, []);
});

test("SequenceScheduler never runs two sequences of one id at once when one between them is cancelled", async () => {
  const { instance, send } = gated();
  const abort = new AbortController();
  const sent = [send(1n, 10, START), send(1n, 11, END), send(1n, 20, { start: true, signal: abort.signal })];
  abort.abort();
  sent.push(send(1n, 30, BOTH));
  await openAll(instance, 3);
  assert.deepEqual(instance.batches, [["1:S10"], ["1:E11", "-"], ["-", "1:SE30"]]);
  assert.deepEqual(await answers(sent), [10, 11, CANCELLED, 30]);
});

test("SequenceScheduler tells a numeric id from the same text", () => {
  const config = fakeSequenceConfig({ control_input: [] });
  const { send } = setUpSequences(config, [new GatedInstance()]);
  send(5n, 1, START);
  assert.throws(() => send("5", 2), /inference request for sequence 5 to model 'm' must specify the START flag/);
});

test("SequenceScheduler refuses a request of an unknown or ended sequence", async () => {
  const { send, scheduler } = setUpSequences(fakeSequenceConfig(), [new EchoInstance()]);
  const error = {
    code: "invalid_argument",
    message:
      "inference request for sequence 303 to model 'm' must specify the START flag on the first request of the sequence",
  };
  assert.throws(() => send(303n, 1), error);
  await answers([send(303n, 1, BOTH)]);
  assert.throws(() => send(303n, 1, END), error);
  assert.equal(scheduler.inFlight, 0);
});

test("SequenceScheduler forgets an idle sequence and frees its slot", async () => {
  const config = fakeSequenceConfig({ max_sequence_idle_microseconds: 20_000 }, { max_batch_size: 0 });
  const instance = new EchoInstance();
  const { send } = setUpSequences(config, [instance]);
  await answers([send(1n, 10, START)]);
  const [waited] = await Promise.all([answers([send(2n, 20, BOTH)]), sleep(60)]); // its timer keeps no process alive
  assert.deepEqual(waited, [20]);
  assert.throws(() => send(1n, 11), /sequence 1 to model 'm' must specify the START flag/);
});

test("SequenceScheduler does not call a sequence idle while its request runs", async () => {
  const { instance, send } = gated({ max_sequence_idle_microseconds: 5000 });
  const sent = [send(1n, 10, START)];
  await sleep(20);
  await instance.open();
  sent.push(send(1n, 11));
  await sleep(20);
  sent.push(send(1n, 12, END));
  await openAll(instance, 2);
  assert.deepEqual(await answers(sent), [10, 11, 12]);
});

test("SequenceScheduler gives up a sequence in the backlog when the shortest timeout of its requests is over", async () => {
  const { instance, send } = gated({}, 0);
  const running = send(1n, 10, BOTH);
  const late = [
    send(2n, 20, { start: true, timeoutUs: 60_000_000 }),
    send(2n, 21, { timeoutUs: 2000 }),
    send(2n, 22, { timeoutUs: 90_000_000 }),
  ];
  const patient = send(3n, 30, BOTH);
  const text = "timeout of the corresponding sequence has been expired";
  assert.deepEqual(await answers(late), [text, text, text]);
  assert.throws(() => send(2n, 23, END), /must specify the START flag/);
  await openAll(instance, 2);
  assert.deepEqual(await answers([running, patient]), [10, 30]);
  assert.deepEqual(instance.batches.flat(), ["1:SE10", "3:SE30"]);
});

test("SequenceScheduler knows no timeout once a sequence has its slot", async () => {
  const { instance, send } = gated({}, 0);
  const sent = [send(1n, 10, { start: true, timeoutUs: 1000 }), send(1n, 11, { end: true, timeoutUs: 1000 })];
  await sleep(5);
  await openAll(instance, 2);
  assert.deepEqual(await answers(sent), [10, 11]);
});

test("SequenceScheduler cancels what is queued of a sequence with one of its requests, and ends it", async () => {
  const { instance, send } = gated({}, 0);
  const abort = new AbortController();
  const sent = [send(1n, 10, START), send(1n, 11, { signal: abort.signal }), send(1n, 12), send(2n, 20, BOTH)];
  abort.abort();
  assert.throws(() => send(1n, 13, END), /must specify the START flag/);
  await openAll(instance, 2);
  assert.deepEqual(await answers(sent), [10, CANCELLED, CANCELLED, 20]);
  assert.deepEqual(instance.batches.flat(), ["1:S10", "2:SE20"]);
});

test("SequenceScheduler cancels a sequence in the backlog at once", async () => {
  const { instance, send } = gated({}, 0);
  const abort = new AbortController();
  const sent = [
    send(1n, 10, BOTH),
    send(2n, 20, { start: true, signal: abort.signal }),
    send(2n, 21),
    send(3n, 30, BOTH),
  ];
  abort.abort();
  assert.deepEqual(await answers(sent.slice(1, 3)), [CANCELLED, CANCELLED]);
  await openAll(instance, 2);
  assert.deepEqual(await answers([...sent.slice(0, 1), ...sent.slice(3)]), [10, 30]);
});

test("SequenceScheduler leaves the end of a running request to the backend when it is cancelled", async () => {
  const { instance, send } = gated();
  const abort = new AbortController();
  const sent = [send(1n, 10, START), send(1n, 11, { signal: abort.signal }), send(1n, 12, END)];
  await instance.open();
  abort.abort();
  await openAll(instance, 2);
  assert.deepEqual(await answers(sent), [10, 11, 12]);
});

test("SequenceScheduler does not run a request that was cancelled before it came", async () => {
  const { instance, send } = gated();
  assert.deepEqual(await answers([send(1n, 10, { start: true, signal: AbortSignal.abort() })]), [CANCELLED]);
  assert.deepEqual(instance.batches, []);
});

test("SequenceScheduler goes on with a sequence whose request has failed", async () => {
  const instance = new EchoInstance();
  const { send } = setUpSequences(fakeSequenceConfig(), [instance]);
  await answers([send(1n, 10, START)]);
  const { execute } = instance;
  instance.execute = () => Promise.reject(new ServerError("internal", "broken"));
  assert.deepEqual(await answers([send(1n, 11)]), ["broken"]);
  instance.execute = execute.bind(instance);
  assert.deepEqual(await answers([send(1n, 12, END)]), [12]);
});

test("SequenceScheduler lets a running sequence finish while it drains, but none begin", async () => {
  const { instance, send, scheduler } = gated();
  const first = send(1n, 10, START);
  const drained = scheduler.drain();
  const text = "Server is stopping, scheduler for model has stopped accepting new inference requests";
  assert.throws(() => send(2n, 20, START), { code: "unavailable", message: text });
  assert.throws(() => send(1n, 20, START), { code: "unavailable", message: text });
  const last = send(1n, 11, END);
  await openAll(instance, 2);
  assert.deepEqual(await answers([first, last]), [10, 11]);
  await drained;
  assert.throws(() => send(1n, 12), { code: "unavailable", message: text });
  assert.equal(scheduler.inFlight, 0);
});

test("SequenceScheduler keeps responses in order where that is asked for", async () => {
  const instance = new GatedInstance();
  const config = fakeSequenceConfig(
    { oldest: { ...OLDEST, preserve_ordering: true } },
    { model_transaction_policy: { decoupled: true } },
  );
  const { send } = setUpSequences(config, [instance]);
  const late: (() => void)[] = [];
  instance.execute = (batch) => {
    for (const request of batch.requests) {
      late.push(() => request.respond({ outputs: [int32("Y", [1, 1], [1])], final: true }));
    }
    return Promise.resolve();
  };
  const seen: string[] = [];
  const ends = (["first", "second"] as const).map(async (name, i) => {
    await answers([send(BigInt(i + 1), 0, BOTH)]);
    seen.push(name);
  });
  await sleep(1);
  late[1]?.();
  await sleep(1);
  assert.deepEqual(seen, []);
  late[0]?.();
  await Promise.all(ends);
  assert.deepEqual(seen, ["first", "second"]);
});

test("SequenceScheduler waits for the last response of a decoupled request before the next of its sequence", async () => {
  const instance = new GatedInstance();
  const config = fakeSequenceConfig({}, { model_transaction_policy: { decoupled: true } });
  const { send } = setUpSequences(config, [instance]);
  const finish: (() => void)[] = [];
  instance.execute = (batch) => {
    instance.batches.push(batch.requests.map(({ request }) => String(request.sequence.id)));
    for (const request of batch.requests) finish.push(() => request.respond({ outputs: [], final: true }));
    return Promise.resolve();
  };
  send(1n, 1, START);
  send(1n, 2, END);
  await sleep(1);
  assert.equal(instance.batches.length, 1);
  finish[0]?.();
  await sleep(1);
  assert.equal(instance.batches.length, 2);
});
