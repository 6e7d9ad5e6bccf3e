import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { afterEach, beforeEach, test } from "node:test";
import { FakeHub } from "../hub/hub-server.test-support.ts";
import { cliCommand, runCli } from "./cli.test-support.ts";

const WEIGHTS = randomBytes(4 << 20);
let hub: FakeHub;
let root = "";
let env: Record<string, string> = {};

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "nereid-download-"));
  hub = await FakeHub.start();
  hub.add("config.json", "{}");
  hub.add("model.safetensors", WEIGHTS, true);
  env = { HF_ENDPOINT: hub.endpoint, HF_HOME: join(root, "home"), HF_TOKEN: "", HUGGING_FACE_HUB_TOKEN: "" };
});
afterEach(async () => {
  await hub[Symbol.asyncDispose]();
  rmSync(root, { recursive: true, force: true });
});

test("nereid download takes the words of the hub's own command and prints the folder", async () => {
  const folder = join(root, "tiny");
  const run = await runCli(
    [
      "download",
      "org/tiny",
      `--local-dir=${folder}/`,
      "--local-dir-use-symlink=False",
      "--include",
      "*.json",
      "model*",
    ],
    env,
  );
  assert.deepEqual([run.code, run.stdout], [0, `${folder}\n`]);
  assert.deepEqual(readFileSync(join(folder, "model.safetensors")), WEIGHTS);
  assert.match(run.stderr, /download \[#{24}\] 100\.0% 4\.0 MiB\/4\.0 MiB/);
});

test("nereid download --json writes progress and the result as JSON lines", async () => {
  const run = await runCli(["download", "hf://org/tiny@main", "--json"], env);
  const events = run.stdout
    .trim()
    .split("\n")
    .map((line): Record<string, unknown> => JSON.parse(line));
  const snapshot = join(root, "home", "hub", "models--org--tiny", "snapshots", hub.commit);
  assert.equal(run.code, 0);
  assert.deepEqual([...new Set(events.map(({ event }) => event))], ["info", "progress", "done"]);
  assert.deepEqual(Object.keys(events.at(-1) ?? {}), [
    "event",
    "command",
    "path",
    "commit",
    "fetched_files",
    "fetched_bytes",
    "files",
  ]);
  assert.equal(events.at(-1)?.path, snapshot);
});

test("nereid download --dry-run lists the files and fetches none", async () => {
  const run = await runCli(["download", "org/tiny", "--dry-run", "-o", join(root, "tiny")], env);
  assert.match(
    run.stdout,
    /fetch +2 B {2}config\.json\nfetch +4\.0 MiB {2}model\.safetensors\n2 of 2 files, 4\.0 MiB, would be fetched/,
  );
  assert.equal(readdirSync(root).includes("tiny"), false);
});

for (const [title, argv, code, expected] of [
  ["a name that is none", ["../../etc"], 1, /'\.\.\/\.\.\/etc' is no name of a model/],
  ["two revisions", ["org/tiny@main", "--revision", "main"], 2, /the revision is named twice/],
  ["a revision that is a path", ["org/tiny", "--revision", "../x"], 1, /'\.\.\/x' is no revision/],
  ["a repository that is not there", ["org/other"], 1, /answers 404/],
] as const) {
  test(`nereid download refuses ${title}`, async () => {
    const run = await runCli(["download", ...argv], env);
    assert.equal(run.code, code);
    assert.match(run.stderr, expected);
  });
}

interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<[number | null, NodeJS.Signals | null]>;
}

/** A download of its own process that has received something and not all. */
async function startSlowly(folder: string): Promise<Running> {
  hub.bytesPerSecond = 1 << 20;
  const argv = cliCommand(["download", "org/tiny", "--local-dir", folder]);
  const child = spawn(process.execPath, argv, { env: { ...process.env, ...env }, stdio: "ignore" });
  const ended = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
  const staged = join(folder, ".cache", "huggingface", "download");
  const hasBytes = (): boolean => {
    const names = readdirSync(root).includes("tiny") ? readdirSync(folder, { recursive: true }).map(String) : [];
    return names
      .filter((name) => name.endsWith(".incomplete"))
      .some((name) => (statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0) > 1 << 18);
  };
  while (!hasBytes()) {
    assert.equal(child.exitCode, null, `${staged} never fills`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return { child, ended };
}

test("nereid download that is killed with -9 leaves nothing to load, and the next run goes on where it stopped", async () => {
  const folder = join(root, "tiny");
  const { child, ended } = await startSlowly(folder);
  const second = await runCli(["download", "org/tiny", "--local-dir", folder], env);
  assert.equal(second.code, 1);
  assert.match(second.stderr, new RegExp(`Process ${child.pid} on .* is writing`));
  child.kill("SIGKILL");
  await ended;
  assert.deepEqual(readdirSync(folder), [".cache"]);
  hub.bytesPerSecond = Number.POSITIVE_INFINITY;
  hub.requests.length = 0;
  assert.equal((await runCli(["download", "org/tiny", "--local-dir", folder], env)).code, 0);
  assert.deepEqual(readFileSync(join(folder, "model.safetensors")), WEIGHTS);
  assert.match(hub.fetches("model.safetensors")[0]?.range ?? "", /^bytes=[1-9]\d*-$/);
});

test("nereid download ends with 130 when interrupted", async () => {
  const { child, ended } = await startSlowly(join(root, "tiny"));
  child.kill("SIGINT");
  assert.deepEqual(await ended, [130, null]);
  assert.deepEqual(readdirSync(join(root, "tiny")), [".cache"]);
});
