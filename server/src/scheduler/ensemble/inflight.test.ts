import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Answer, ensemble, model, plus } from "../../../../tests/fakes/ensembles.ts";
import { int32, int32Values } from "../../../../tests/fakes/requests.ts";
import { ServerError } from "../../core/server-error.ts";

/** A stream of ten elements in front of a model of which so many run at once. */
function streamBefore(consume: Answer, limits: { maxInFlight: number; maxWaitMs?: number }) {
  const stream: Answer = (request, send) => {
    for (const value of int32Values(request.inputs[0])) send([int32("Y", [1, 1], [value])], false);
    send([], true);
  };
  const models = { stream: model("stream", ["X"], ["Y"], stream), slow: model("slow", ["X"], ["Y"], consume) };
  const steps = [
    { model: "stream", inputs: { X: "IN" }, outputs: { Y: "mid" } },
    { model: "slow", inputs: { X: "mid" }, outputs: { Y: "OUT" } },
  ];
  return ensemble(steps, models, { outputs: ["OUT"], decoupled: ["stream"], ...limits });
}

/** The scheduler's own timers keep no process alive. */
function keptAlive(): AsyncDisposable {
  const timer = setInterval(() => undefined, 1000);
  return { [Symbol.asyncDispose]: async () => clearInterval(timer) };
}

const TEN = Array.from({ length: 10 }, (_, i) => i);

for (const maxInFlight of [1, 3]) {
  test(`max_inflight_requests ${maxInFlight} lets so many requests of a step run, and loses none`, async () => {
    let running = 0;
    let most = 0;
    const consume: Answer = async (request, send) => {
      running += 1;
      most = Math.max(most, running);
      await sleep(1);
      running -= 1;
      await plus(100)(request, send);
    };
    const { run, scheduler } = streamBefore(consume, { maxInFlight });
    const responses = await run(TEN);
    const values = responses.flatMap(({ outputs }) => outputs.flatMap(int32Values));
    assert.deepEqual(
      values,
      TEN.map((value) => value + 100),
    );
    assert.equal(most, maxInFlight);
    assert.equal(responses.at(-1)?.final, true);
    assert.equal(scheduler.inFlight, 0);
  });
}

test("a request that waits too long behind others of its step ends the ensemble, and with it what waits", async () => {
  const { run, scheduler } = streamBefore(
    async (request, send) => {
      await new Promise((resolve) => request.signal.addEventListener("abort", resolve, { once: true }));
      send([], true);
    },
    { maxInFlight: 2, maxWaitMs: 200 },
  );
  await using _ = keptAlive();
  await assert.rejects(run(TEN), {
    code: "unavailable",
    message: /^in ensemble 'e', a request to model 'slow' waited 0\.2 s for earlier ones to end/,
  });
  await scheduler.drain();
});

test("a failure while others wait for their turn ends the ensemble once, and none of them runs", async () => {
  let calls = 0;
  const { run, scheduler } = streamBefore(
    () => {
      calls += 1;
      throw new ServerError("internal", "broken");
    },
    { maxInFlight: 1 },
  );
  await assert.rejects(run(TEN), /broken/);
  await scheduler.drain();
  assert.equal(calls, 1);
});
