import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { hostEntry } from "./host-entry.ts";

test("a host whose server is gone ends, although a call on libuv's threads does not", {
  timeout: 240_000,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "nereid-gone-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const pipe = join(folder, "pipe");
  assert.equal(spawnSync("mkfifo", [pipe]).status, 0);
  const busy = join(folder, "busy.cjs");
  // Opening a pipe that nobody writes to keeps the thread, as a step does that waits for its caller.
  writeFileSync(busy, `require("node:fs").open(${JSON.stringify(pipe)}, "r", () => undefined);`);
  const host = spawn(process.execPath, [...process.execArgv, "--require", busy, hostEntry()], {
    stdio: ["ignore", "ignore", "inherit", "pipe"],
  });
  t.after(() => host.kill("SIGKILL"));
  const ended = once(host, "exit");
  host.stdio[3]?.destroy();
  assert.deepEqual(await ended, [null, "SIGKILL"]);
});
