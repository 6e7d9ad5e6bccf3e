import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { watchKeyFile } from "./key-file.ts";

const keys = (...names: string[]): string =>
  JSON.stringify({ keys: names.map((name, i) => ({ name, sha256: String(i).repeat(64) })) });

test("a file that is replaced is read again; one with a fault leaves the keys as they were", {
  timeout: 600_000,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "keys-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "keys.json");
  const replace = (text: string): void => {
    writeFileSync(`${path}.new`, text);
    renameSync(`${path}.new`, path);
  };
  const events = new EventEmitter();
  const alive = setInterval(() => events.emit("tick"), 1000); // the watch itself keeps no process alive
  t.after(() => clearInterval(alive));
  const log = {
    info: () => events.emit("read"),
    error: (_: string, text: string) => events.emit("fault", text),
  };
  const seen: string[][] = [];
  replace(keys("a"));
  const watch = watchKeyFile(path, log as never, (records) => {
    seen.push(records.map(({ name }) => name));
    events.emit("update");
  });
  t.after(() => watch[Symbol.dispose]());
  const fault = once(events, "fault");
  replace("{}");
  assert.match(String((await fault)[0]), /expected \{"keys": \[\.\.\.\]\}, got \{\}; the keys stay as they were$/);
  const update = once(events, "update");
  replace(keys("a", "b", "c"));
  await update;
  assert.deepEqual(seen, [["a"], ["a", "b", "c"]]);
});

test("at the start a fault ends it", () => {
  assert.throws(() => watchKeyFile("/nonexistent/keys.json", {} as never, () => assert.fail()), {
    code: "invalid_argument",
    message: /^API key file \/nonexistent\/keys\.json: ENOENT/,
  });
});
