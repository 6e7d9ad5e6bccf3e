import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { SYSTEM_CLOCK } from "../clock.ts";
import { IdleReaper } from "./idle.ts";

/** Runs until `count` items were found idle; the reaper's own timer keeps no process alive. */
async function found(count: number, idle: readonly string[]): Promise<readonly string[]> {
  for (let i = 0; i < 500 && idle.length < count; i += 1) await sleep(2);
  return idle;
}

test("IdleReaper finds what was idle for the whole time, the longest first", async () => {
  const idle: string[] = [];
  const reaper = new IdleReaper<string>(SYSTEM_CLOCK, 10, (item) => idle.push(item));
  for (const item of ["a", "b", "c", "d"]) reaper.start(item);
  reaper.stop("b");
  reaper.start("a");
  assert.deepEqual(await found(3, idle), ["c", "d", "a"]);
});

test("IdleReaper finds nothing after it was cleared, and begins anew with the next item", async () => {
  const idle: string[] = [];
  const reaper = new IdleReaper<string>(SYSTEM_CLOCK, 2, (item) => idle.push(item));
  reaper.start("a");
  reaper.clear();
  reaper.start("b");
  assert.deepEqual(await found(1, idle), ["b"]);
});

test("IdleReaper lets what it calls back start and stop items", async () => {
  const idle: string[] = [];
  const reaper = new IdleReaper<string>(SYSTEM_CLOCK, 2, (item) => {
    idle.push(item);
    if (item === "a") {
      reaper.stop("b");
      reaper.start("c");
    }
  });
  reaper.start("a");
  reaper.start("b");
  assert.deepEqual(await found(2, idle), ["a", "c"]);
});

test("IdleReaper can wait longer than a timer", async () => {
  const warned = once(process, "warning").then(() => "warned");
  const reaper = new IdleReaper<string>(SYSTEM_CLOCK, 2 ** 53, () => undefined);
  reaper.start("a");
  assert.equal(await Promise.race([warned, sleep(20, "quiet")]), "quiet");
  reaper.clear();
});
