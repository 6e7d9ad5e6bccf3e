import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { BoundedSignal } from "./bounded-signal.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Resolves once the signal of a bound that nobody keeps has fired. */
function fired(timeoutMs: number): Promise<unknown> {
  return once(new BoundedSignal(new AbortController().signal, timeoutMs).signal, "abort");
}

test("`BoundedSignal` fires after its time, also when garbage was collected meanwhile", async () => {
  const all = Promise.all(Array.from({ length: 20 }, () => fired(100)));
  await sleep(10);
  collect();
  const keepsAlive = setTimeout(() => undefined, 60_000);
  await all;
  clearTimeout(keepsAlive);
});

test("`BoundedSignal` ends with the signal that it was given, and with one that had ended", () => {
  const given = new AbortController();
  const bounded = new BoundedSignal(given.signal, 60_000);
  assert.equal(bounded.signal.aborted, false);
  given.abort("left");
  assert.equal(bounded.signal.reason, "left");
  assert.equal(new BoundedSignal(given.signal, 60_000).signal.aborted, true);
});

test("`clear()` stops the clock", async () => {
  const bounded = new BoundedSignal(new AbortController().signal, 5);
  bounded.clear();
  await sleep(30);
  assert.equal(bounded.signal.aborted, false);
});
