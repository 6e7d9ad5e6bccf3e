import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeConfig, fakeInput, fakeOutput } from "../../../tests/fakes/model-config.ts";
import { collect, fakeRequest, int32 } from "../../../tests/fakes/requests.ts";
import { signatureOf } from "../core/model-signature.ts";
import { StatisticsCounter } from "./model-statistics.ts";
import { RequestQueue } from "./request-queue.ts";
import { ScheduledRequest } from "./scheduled-request.ts";

const signature = signatureOf(fakeConfig({ input: [fakeInput("X", [1])], output: [fakeOutput("Y", [1])] }));
const context = {
  signature,
  version: "1",
  statistics: new StatisticsCounter(),
  decoupled: false,
  reshapesOutputs: false,
};

test("a queue lets go of requests whose clients have left, though no instance is free", async () => {
  const queue = new RequestQueue(undefined);
  const controller = new AbortController();
  const signals = [controller.signal, new AbortController().signal, controller.signal];
  const requests = signals.map(
    (signal) => new ScheduledRequest(fakeRequest([int32("X", [1], [1])], { signal }), 1, context),
  );
  for (const request of requests) queue.push(request, 0);
  controller.abort();
  assert.equal(queue.nextSweepMs, 1000);
  queue.sweep(999);
  assert.equal(queue.length, 3);
  queue.sweep(1000);
  assert.equal(queue.length, 1);
  assert.deepEqual(
    requests.map(({ failed }) => failed),
    [true, false, true],
  );
  await assert.rejects(collect((requests[0] as ScheduledRequest).stream), /Request was cancelled/);
  assert.equal(queue.nextSweepMs, 2000);
  queue.take(1);
  assert.equal(queue.nextSweepMs, Number.POSITIVE_INFINITY);
});
