import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runCli } from "./cli.test-support.ts";

const PACKAGE = new URL("../../package.json", import.meta.url);
const A_FILE = fileURLToPath(PACKAGE);

/** The first line is Triton's. */
const FAULTS: readonly (readonly [flags: readonly string[], first: string, rest: string])[] = [
  [[], "Invalid argument - --model-repository must be specified", "; one model by its name or path: nereid serve NAME"],
  [["--model-repository=/none"], "Internal - failed to stat file /none", ", got /none"],
  [[`--model-repository=${A_FILE}`], "Invalid argument - repository path is not a valid directory", `, got ${A_FILE}`],
];

for (const [flags, first, rest] of FAULTS) {
  test(`nereid serve says what a repository is: ${first}`, async () => {
    const { code, stderr } = await runCli(["serve", ...flags]);
    const lines = stderr.trimEnd().split("\n").slice(-2);
    const hint = `--model-repository: expected a folder that holds a folder for each model${rest}`;
    assert.deepEqual([code, ...lines], [1, `error: creating server: ${first}`, hint]);
  });
}

test("nereid --version says its own", async () => {
  const { version } = JSON.parse(readFileSync(PACKAGE, "utf8")) as { version: string };
  assert.deepEqual(await runCli(["--version"]), { code: 0, stdout: `nereid ${version}\n`, stderr: "" });
});
