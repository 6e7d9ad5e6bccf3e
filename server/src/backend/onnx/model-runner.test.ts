import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeRequest } from "../../../../tests/fakes/requests.ts";
import { whenAllCancelled } from "./model-runner.ts";

test("whenAllCancelled() calls back once, when the last is cancelled, in whatever order they are", () => {
  for (const order of [
    [0, 1, 2],
    [2, 1, 0],
    [1, 2, 0],
  ]) {
    const controllers = order.map(() => new AbortController());
    let calls = 0;
    whenAllCancelled(
      controllers.map(({ signal }) => fakeRequest([], { signal })),
      () => {
        calls += 1;
      },
    );
    for (const [i, at] of order.entries()) {
      assert.equal(calls, 0);
      controllers[at]?.abort();
      assert.equal(calls, i === order.length - 1 ? 1 : 0);
    }
  }
});

test("whenAllCancelled() asks one request at a time for its signal, and none when it has been told to stop", () => {
  const asked: number[] = [];
  const controllers = [0, 1].map(() => new AbortController());
  let calls = 0;
  const requests = controllers.map(({ signal }, i) =>
    Object.defineProperty({ ...fakeRequest([]), isCancelled: false }, "signal", {
      get: () => {
        asked.push(i);
        return signal;
      },
    }),
  );
  const stop = whenAllCancelled(requests, () => {
    calls += 1;
  });
  assert.deepEqual(asked, [0]);
  stop();
  for (const controller of controllers) controller.abort();
  assert.deepEqual([calls, asked], [0, [0]]);
});
