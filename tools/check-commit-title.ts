/**
 * Fails when the title of a commit breaks a rule of commit-title.ts: `check-commit-title.ts <file of the message>` for the hook
 * `commit-msg`, `check-commit-title.ts --range=main..HEAD` for commits that are there.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";
import { messageProblems, titleOf } from "./commit-title.ts";

const { values, positionals } = parseArgs({ allowPositionals: true, options: { range: { type: "string" } } });
const [file] = positionals;
const messages = [
  ...(file === undefined ? [] : [readFileSync(file, "utf8")]),
  ...(values.range === undefined ? [] : messagesOf(values.range)),
];
if (file === undefined && values.range === undefined) {
  process.stderr.write("a file with a message, or --range=<commits>, expected\n");
  process.exitCode = 2;
}
for (const message of messages) {
  for (const problem of messageProblems(message)) {
    process.stderr.write(`commit title "${titleOf(message)}": ${problem}\n`);
    process.exitCode = 1;
  }
}

function messagesOf(range: string): readonly string[] {
  const text = execFileSync("git", ["log", "--no-merges", "--format=%B%x00", range], { encoding: "utf8" });
  return text.split("\0").filter((message) => message.trim() !== "");
}
