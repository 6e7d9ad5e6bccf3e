import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { afterEach, beforeEach, test } from "node:test";
import { cliCommand, runCli } from "@nereid/server/cli/cli.test-support";
import { isUnfinishedName } from "@nereid/server/core/unfinished-name";

const MODEL = "examples/nereid-tiny/language_model";
const LARGE_BYTES = 1 << 27;
let root = "";
let model = "";
let repository = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "nereid-init-"));
  model = join(root, "model");
  repository = join(root, "repo");
  cpSync(MODEL, model, { recursive: true });
  writeFileSync(join(model, "zzz.bin"), ""); // something that takes a while to copy
  truncateSync(join(model, "zzz.bin"), LARGE_BYTES);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

for (const moment of [
  ".repo.nereid-partial",
  ".repo.nereid-partial/tensorrt_llm/1/config.json",
  ".repo.nereid-partial/ensemble",
  "repo",
]) {
  test(`nereid init-repo that is killed with -9 when ${moment} appears leaves a whole repository or none`, async () => {
    const argv = ["init-repo", "--model", model, "--repo", repository, "--copy", "-q"];
    const child = spawn(process.execPath, cliCommand(argv), { stdio: "ignore" });
    const ended = once(child, "exit");
    while (!existsSync(join(root, moment)) && child.exitCode === null)
      await new Promise((resolve) => setTimeout(resolve, 1));
    child.kill("SIGKILL");
    await ended;
    const isThere = existsSync(repository);
    const doctor = await runCli(["doctor", isThere ? repository : root, "-q"]);
    assert.match(doctor.stdout, isThere ? /^5 models: 5 will load\n$/ : /1 models: 0 will load/); // the model's own folder is none
    const again = await runCli([...argv, "--force"]);
    assert.deepEqual([again.code, again.stderr], [0, ""]);
    assert.match((await runCli(["doctor", repository, "-q"])).stdout, /^5 models: 5 will load\n$/);
    assert.deepEqual(readdirSync(root).filter(isUnfinishedName), []);
  });
}
