import assert from "node:assert/strict";
import { test } from "node:test";
import { Restarting } from "./restarting.ts";

/** Starts "1", "2", ...; those in `failing` fail. */
function supervised(failing: readonly number[] = []) {
  let starts = 0;
  const events: string[] = [];
  const restarting = new Restarting<string>({
    start() {
      starts += 1;
      return failing.includes(starts) ? Promise.reject(new Error(`no ${starts}`)) : Promise.resolve(String(starts));
    },
    failed: (cause, delayMs) => events.push(`${cause}: ${delayMs}`),
    restarted: () => events.push("restarted"),
  });
  return { restarting, events };
}

test("`start()` hands a first failure to its caller", async () => {
  const { restarting, events } = supervised([1]);
  await assert.rejects(restarting.start(), /^Error: no 1$/);
  assert.equal(restarting.current, undefined);
  assert.deepEqual(events, []);
});

test("`soon()` waits for the next one after a death, whose delay grows with each failure", async () => {
  const { restarting, events } = supervised([2]);
  await restarting.start();
  assert.equal(restarting.current, "1");
  restarting.ended("gone");
  assert.equal(restarting.current, undefined);
  assert.equal(await restarting.soon(), undefined);
  assert.equal(await restarting.soon(), "3");
  assert.deepEqual(events, ["gone: 100", "no 2: 200", "restarted"]);
});

test("`close()` gives the last one back and ends the waiting for another", async () => {
  const alive = supervised().restarting;
  await alive.start();
  assert.equal(await alive.close(), "1");
  alive.ended("closed");
  assert.equal(await alive.soon(), undefined);
  const { restarting, events } = supervised();
  await restarting.start();
  restarting.ended("gone");
  assert.equal(await restarting.close(), undefined);
  assert.deepEqual(events, ["gone: 100"]);
});

test("`ended()` starts the next one at once, and a new count, when what ended had done its work", async () => {
  const { restarting, events } = supervised();
  await restarting.start();
  for (const isSound of [false, false, true, false]) {
    restarting.ended("gone", isSound);
    await restarting.soon();
  }
  assert.deepEqual(
    events.filter((event) => event !== "restarted"),
    ["gone: 100", "gone: 200", "gone: 0", "gone: 200"],
  );
});
