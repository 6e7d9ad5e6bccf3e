import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { runCli } from "@nereid/server/cli/cli.test-support";

const MODEL = "examples/nereid-tiny/language_model";
let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "nereid-doctor-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

test("nereid init-repo writes a repository that nereid doctor finds nothing wrong with", async () => {
  const repository = join(root, "repo");
  const argv = [
    "init-repo",
    "--model",
    MODEL,
    "--model-repo",
    repository,
    "--set",
    "max_beam_width:2,lora_prefetch_dir:",
  ];
  const init = await runCli(argv);
  assert.equal(init.code, 0, init.stderr);
  assert.match(init.stdout, /Next:\n {2}nereid serve --model-repository=.*repo\n {2}curl -X POST localhost:8000/);
  const doctor = await runCli(["doctor", repository]);
  assert.deepEqual([doctor.code, doctor.stdout], [0, "5 models: 5 will load\n"]);
});

test("nereid doctor ends with 1 and says file, line, problem and fix; --json says it to machines", async () => {
  mkdirSync(join(root, "net", "1"), { recursive: true });
  const file = join(root, "net", "config.pbtxt");
  writeFileSync(file, '# a model\nbackend: "identity"\nmax_batchsize: 3\n');
  const text = await runCli(["doctor", `--model-repository=${root}`]);
  assert.equal(text.code, 1);
  assert.match(
    text.stdout,
    new RegExp(
      `^${file}:3: error: .*did you mean 'max_batch_size'.*\n    fix: .*\n1 models: 0 will load, 1 will not: net\n$`,
    ),
  );
  const json = await runCli(["doctor", root, "--json"]);
  const last: Record<string, unknown> = JSON.parse(json.stdout.trim().split("\n").at(-1) ?? "");
  assert.equal(json.code, 1);
  assert.deepEqual(last.models, [{ name: "net", path: join(root, "net"), loads: false }]);
  assert.deepEqual(Object.keys((last.findings as object[])[0] ?? {}).sort(), [
    "file",
    "fix",
    "line",
    "model",
    "problem",
    "severity",
  ]);
});

test("nereid doctor and nereid init-repo refuse wrong command lines with 2 and impossible ones with 1", async () => {
  assert.equal((await runCli(["doctor"])).code, 2);
  assert.equal((await runCli(["doctor", join(root, "none")])).code, 1);
  const missing = await runCli(["init-repo", "--repo", join(root, "repo")]);
  assert.equal(missing.code, 2);
  assert.match(missing.stderr, /--model is missing/);
  assert.equal((await runCli(["init-repo", "--model", root, "--repo", join(root, "repo")])).code, 1);
  assert.deepEqual(readdirSync(root), []);
});
