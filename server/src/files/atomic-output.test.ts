import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { LOADER_FLAGS } from "../../../tests/support/source-loader.ts";
import { isUnfinishedName } from "../core/unfinished-name.ts";
import { openAtomicFolder, partialPath, writeFileAtomically } from "./atomic-output.ts";
import { freeBytes, requireFreeBytes } from "./disk-space.ts";
import { lockPath, TargetLock } from "./target-lock.ts";
import { ToolError } from "./tool-error.ts";

let root = "";
let target = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "nereid-atomic-"));
  target = join(root, "engine");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

test("openAtomicFolder() shows the folder only after commit(), whole", async () => {
  await using folder = await openAtomicFolder(target);
  mkdirSync(join(folder.path, "deep"));
  writeFileSync(join(folder.path, "deep", "rank0.bin"), "weights");
  assert.equal(readdirSync(root).includes("engine"), false);
  assert.deepEqual(
    readdirSync(root).filter((name) => !isUnfinishedName(name) && !name.endsWith("-lock")),
    [],
  );
  await folder.commit();
  assert.equal(readFileSync(join(target, "deep", "rank0.bin"), "utf8"), "weights");
});

test("openAtomicFolder() leaves nothing behind when the work fails", async () => {
  const failing = (async () => {
    await using folder = await openAtomicFolder(target);
    writeFileSync(join(folder.path, "half"), "x");
    throw new Error("no");
  })();
  await assert.rejects(failing, /no/);
  assert.deepEqual(readdirSync(root), []);
});

test("openAtomicFolder() refuses a folder with files and replaces it when told, leaving it alone until the end", async () => {
  mkdirSync(target);
  writeFileSync(join(target, "old"), "old");
  await assert.rejects(openAtomicFolder(target), /is there already and holds 1 file$/);
  {
    await using folder = await openAtomicFolder(target, { existing: "replace" });
    writeFileSync(join(folder.path, "new"), "new");
    assert.deepEqual(readdirSync(target), ["old"]);
    await folder.commit();
  }
  assert.deepEqual(readdirSync(target), ["new"]);
  assert.deepEqual(readdirSync(root), ["engine"]);
});

test("openAtomicFolder() takes an empty folder for its own", async () => {
  mkdirSync(target);
  await using folder = await openAtomicFolder(target);
  writeFileSync(join(folder.path, "new"), "new");
  await folder.commit();
  assert.deepEqual(readdirSync(target), ["new"]);
});

test("openAtomicFolder() brings back what a run killed between its two renames had put aside", async () => {
  mkdirSync(target);
  writeFileSync(join(target, "old"), "old");
  renameSync(target, join(root, ".engine.nereid-previous"));
  await assert.rejects(openAtomicFolder(target), /is there already/);
  assert.deepEqual(readdirSync(target), ["old"]);
});

/** A process that holds the folder and is killed with SIGKILL during its work. */
async function killedInTheMiddle(): Promise<void> {
  const program = `
    import { writeFileSync } from "node:fs";
    import { openAtomicFolder } from ${JSON.stringify(new URL("./atomic-output.ts", import.meta.url).href)};
    const folder = await openAtomicFolder(${JSON.stringify(target)});
    writeFileSync(folder.path + "/config.json", "{");
    process.stdout.write("ready");
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, [...LOADER_FLAGS, "--input-type=module", "-e", program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  await assert.rejects(
    openAtomicFolder(target),
    new RegExp(`^ToolError: Process ${child.pid} on .* is writing .*engine now`),
  );
  child.kill("SIGKILL");
  await once(child, "exit");
}

test("openAtomicFolder() refuses while another process is at work, and starts anew when that was killed", async () => {
  await killedInTheMiddle();
  assert.equal(readdirSync(root).includes("engine"), false);
  await using folder = await openAtomicFolder(target);
  assert.deepEqual(readdirSync(folder.path), []);
  await folder.commit();
  assert.deepEqual(readdirSync(target), []);
});

test("openAtomicFolder() keeps a killed run's files when the caller takes them up", async () => {
  await killedInTheMiddle();
  await using folder = await openAtomicFolder(target, { leftovers: "keep" });
  assert.deepEqual(readdirSync(folder.path), ["config.json"]);
});

const OWNERS: readonly [string, unknown, number, boolean][] = [
  ["a living process of this machine", { pid: process.ppid, host: hostname(), started: "", nonce: "n" }, 3600, false],
  [
    "a pid that was given to another process",
    { pid: process.ppid, host: hostname(), started: "1", nonce: "n" },
    0,
    true,
  ],
  ["another machine that is heard of", { pid: 1, host: "elsewhere", started: "", nonce: "n" }, 30, false],
  ["another machine gone silent", { pid: 1, host: "elsewhere", started: "", nonce: "n" }, 90, true],
  ["a file that is being written", "", 1, false],
  ["a file that was cut short long ago", "", 90, true],
  ["a pid that would signal a group", { pid: -1, host: hostname(), started: "", nonce: "n" }, 90, true],
];

for (const [title, owner, ageSeconds, isFree] of OWNERS) {
  test(`TargetLock.acquire() ${isFree ? "takes over from" : "respects"} ${title}`, async () => {
    writeFileSync(lockPath(target), owner === "" ? "" : JSON.stringify(owner));
    const then = new Date(Date.now() - ageSeconds * 1000);
    utimesSync(lockPath(target), then, then);
    const outcome = await TargetLock.acquire(target).then(
      async (lock) => {
        await lock[Symbol.asyncDispose]();
        return "taken";
      },
      (error: unknown) => (error instanceof ToolError ? "refused" : error),
    );
    assert.equal(outcome, isFree ? "taken" : "refused");
  });
}

test("commit() refuses when another process has taken over", async () => {
  await using folder = await openAtomicFolder(target);
  writeFileSync(lockPath(target), JSON.stringify({ pid: 1, host: "elsewhere", started: "", nonce: "other" }));
  await assert.rejects(folder.commit(), /Another process has taken over/);
});

test("writeFileAtomically() replaces a file whole, keeps its mode and leaves the old one when writing fails", async () => {
  const file = join(root, "config.pbtxt");
  writeFileSync(file, "old", { mode: 0o640 });
  await writeFileAtomically(file, "new");
  assert.equal(readFileSync(file, "utf8"), "new");
  assert.equal(statSync(file).mode & 0o777, 0o640);
  const failing = writeFileAtomically(file, async (handle) => {
    await handle.write("half");
    throw new Error("no");
  });
  await assert.rejects(failing, /no/);
  assert.equal(readFileSync(file, "utf8"), "new");
  assert.deepEqual(readdirSync(root), ["config.pbtxt"]);
});

test("writeFileAtomically() says what is wrong with a path", async () => {
  await assert.rejects(writeFileAtomically(join(root, "no", "file"), ""), /Cannot write .*file: it does not exist/);
});

test("requireFreeBytes() names needed and free bytes, and looks at the folder that is there", async () => {
  assert.ok((await freeBytes(join(root, "not", "yet"))) > 0);
  await requireFreeBytes(target, 10, async () => 10);
  await assert.rejects(
    requireFreeBytes("/data/x", 3 * 1024, async () => 1024),
    /Not enough disk space for \/data\/x: 3\.0 KiB \(3072 bytes\) are needed, 1\.0 KiB \(1024 bytes\) are free/,
  );
});

test("partialPath() is hidden and recognised as unfinished", () => {
  assert.equal(partialPath("/data/engine"), "/data/.engine.nereid-partial");
  assert.equal(isUnfinishedName(".engine.nereid-partial"), true);
  assert.equal(isUnfinishedName("engine"), false);
});
