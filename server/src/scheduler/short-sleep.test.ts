import assert from "node:assert/strict";
import { test } from "node:test";
import { ShortSleep } from "./short-sleep.ts";

async function readySleep(): Promise<ShortSleep> {
  const sleep = new ShortSleep();
  const keepAlive = setInterval(() => undefined, 1000);
  while (!sleep.isReady) await new Promise((resolve) => setImmediate(resolve));
  clearInterval(keepAlive);
  return sleep;
}

test("`wakeAt()` wakes sleepers in the order of their times, whatever the order of the calls", async () => {
  const sleep = await readySleep();
  const woken: string[] = [];
  const startMs = performance.now();
  await new Promise<void>((resolve) => {
    sleep.wakeAt(startMs + 30, () => {
      woken.push("late");
      resolve();
    });
    sleep.wakeAt(startMs + 1, () => woken.push("early"));
    sleep.wakeAt(startMs + 15, () => woken.push("between"));
  });
  assert.deepEqual(woken, ["early", "between", "late"]);
  assert.ok(performance.now() >= startMs + 29.9);
});

test("`wakeAt()` again replaces the time of a sleeper", async () => {
  const sleep = await readySleep();
  let calls = 0;
  const count = (): void => {
    calls++;
  };
  const startMs = performance.now();
  sleep.wakeAt(startMs + 1, count);
  sleep.wakeAt(startMs + 20, count);
  await new Promise<void>((resolve) => sleep.wakeAt(startMs + 40, resolve));
  assert.equal(calls, 1);
});

test("`forget()` takes a sleeper out", async () => {
  const sleep = await readySleep();
  const startMs = performance.now();
  const never = (): void => assert.fail("it was forgotten");
  sleep.wakeAt(startMs + 1, never);
  sleep.forget(never);
  await new Promise<void>((resolve) => sleep.wakeAt(startMs + 10, resolve));
  assert.equal(sleep.isReady, true);
});
