import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { runCli } from "./cli.test-support.ts";
import { completionScript } from "./completion.ts";

const COMMANDS = new Map([
  ["serve", "serve it"],
  ["show", "show the model's facts"],
  ["run", "run it"],
]);

let folder = "";
before(() => {
  folder = mkdtempSync(join(tmpdir(), "nereid-completion-"));
  const help = "Options:\n  -o, --output DIR   where\n  --offline          no network, as --online is not\n";
  writeFileSync(join(folder, "nereid"), `#!/bin/sh\necho "$1" >> "${folder}/asked"\nprintf '%s' '${help}'\n`);
  chmodSync(join(folder, "nereid"), 0o755);
  writeFileSync(join(folder, "model.gguf"), "");
});
after(() => rmSync(folder, { recursive: true, force: true }));

/** Replies that bash would show for the last of the words, each set of words in one session. */
function complete(...lines: readonly (readonly string[])[]): readonly string[] {
  const asks = lines.map(
    (words) =>
      `COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}; _nereid; echo "\${COMPREPLY[*]}"`,
  );
  const script = [completionScript("bash", COMMANDS), ...asks].join("\n");
  const env = { ...process.env, PATH: `${folder}:${process.env.PATH}` };
  const { stdout, stderr } = spawnSync("bash", ["-c", script], { cwd: folder, env, encoding: "utf8" });
  assert.equal(stderr, "");
  return stdout.trimEnd().split("\n");
}

test("bash completes commands, flags from a command's help asked once, and files", () => {
  const replies = complete(
    ["nereid", "s"],
    ["nereid", "run", "--o"],
    ["nereid", "run", "x", "--off"],
    ["nereid", "run", "mod"],
  );
  assert.deepEqual(replies, ["serve show", "--offline --output", "--offline", "model.gguf"]);
  const asked = spawnSync("cat", ["asked"], { cwd: folder, encoding: "utf8" }).stdout;
  assert.equal(asked, "run\n");
});

test("scripts for zsh and fish quote summaries", () => {
  for (const shell of ["zsh", "fish"] as const)
    assert.ok(completionScript(shell, COMMANDS).includes(`show the model'"'"'s facts'`), shell);
});

test("nereid completion prints the commands there are, and refuses other shells", async () => {
  const { code, stdout } = await runCli(["completion", "bash"]);
  assert.equal(code, 0);
  assert.match(stdout, /compgen -W 'serve run pull .*completion.*' --/);
  const wrong = await runCli(["completion", "csh"]);
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /<shell> is one of bash, zsh, fish, got 'csh'/);
});

test("help, -h, version and help of a command are words of the top level", async () => {
  const [help, short, version, ofCommand] = await Promise.all(
    [["help"], ["-h"], ["version"], ["help", "completion"]].map((argv) => runCli(argv)),
  );
  assert.match(help?.stdout ?? "", /^Usage: nereid <command>/);
  assert.deepEqual([short?.stdout, short?.code], [help?.stdout, 0]);
  assert.match(version?.stdout ?? "", /^nereid \d+\.\d+\.\d+\n$/);
  assert.match(ofCommand?.stdout ?? "", /^Usage: nereid completion /);
});
