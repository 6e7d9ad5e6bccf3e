/** Readers of the events of a background response. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { EventLog, replay } from "./event-log.ts";

const text = (piece: Uint8Array | undefined): string => Buffer.from(piece ?? []).toString();

async function all(log: EventLog, start: number): Promise<string> {
  let events = "";
  for await (const piece of replay(log, start, new AbortController().signal)) events += text(piece);
  return events;
}

test("replay() gives the events from a number on, those that come later, and ends with the log", async () => {
  const log = new EventLog();
  log.append("a");
  log.append("b");
  const [whole, rest, none] = [all(log, 0), all(log, 1), all(log, 9)];
  await new Promise((resolve) => setImmediate(resolve));
  log.append("c");
  log.close();
  assert.deepEqual(await Promise.all([whole, rest, none]), ["abc", "bc", ""]);
  assert.equal(await all(log, 2), "c");
});

test("replay() ends when its reader leaves while nothing comes", async () => {
  const log = new EventLog();
  const leave = new AbortController();
  const reader = replay(log, 0, leave.signal);
  const next = reader.next();
  leave.abort();
  assert.equal((await next).done, true);
  log.append("a");
});
