import assert from "node:assert/strict";
import { test } from "node:test";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "./log.ts";
import { LogRing } from "./log-ring.ts";

const ALL = { text: "" };

test("`after()` gives what came behind an id, and forgets the oldest", () => {
  const ring = new LogRing(3, () => 5);
  for (const message of ["a", "b", "c", "d"]) ring.add("info", "place", message);
  const messages = (id: number, limit = 10): string[] => ring.after(id, ALL, limit).map(({ message }) => message);
  assert.deepEqual(messages(0), ["b", "c", "d"]);
  assert.deepEqual(messages(3), ["d"]);
  assert.deepEqual(messages(4), []);
  assert.deepEqual(messages(0, 2), ["c", "d"]);
  assert.equal(ring.lastId, 4);
});

test("`after()` filters by level and by text in any case", () => {
  const ring = new LogRing(10);
  ring.add("error", "model_lifecycle", "Cannot load");
  ring.add("info", "http_server", "Started");
  const find = (text: string, ...levels: ("info" | "error")[]): number[] =>
    ring.after(0, { text, levels: new Set(levels) }, 10).map(({ id }) => id);
  assert.deepEqual(find("", "error"), [1]);
  assert.deepEqual(find("STARTED", "error", "info"), [2]);
  assert.deepEqual(find("lifecycle", "error", "info"), [1]);
});

test("`add()` shortens messages that would fill the memory", () => {
  const ring = new LogRing(1);
  ring.add("info", "place", "x".repeat(10_000));
  assert.equal(ring.after(0, ALL, 1)[0]?.message.length, 4097);
});

test("a log hands its keeper each record that it writes, unescaped, and no other", () => {
  const log = new ServerLog(
    { ...DEFAULT_LOG_SETTINGS, log_info: false },
    { sink: { out: () => undefined, err: () => undefined } },
  );
  const ring = new LogRing(10);
  log.keepIn(ring);
  log.info("place", "not written");
  log.error("place", 'say "no"');
  assert.deepEqual(
    ring.after(0, ALL, 10).map(({ level, location, message }) => [level, location, message]),
    [["error", "place", 'say "no"']],
  );
});
