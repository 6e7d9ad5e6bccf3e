/** Runs the test files given, or every one of the workspace, under node's test runner with TypeScript sources. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import process from "node:process";

const ROOTS = ["wire/src", "client/src", "server/src", "server/kernels", "tools", "examples", "tests"];
/** A file that hangs fails, and does not take the whole run with it. */
const FILE_TIMEOUT_MS = 300_000;

function testFiles(): string[] {
  return ROOTS.filter((root) => existsSync(root))
    .flatMap((root) => readdirSync(root, { recursive: true, encoding: "utf8" }).map((path) => `${root}/${path}`))
    .filter((path) => path.endsWith(".test.ts") && !path.includes("node_modules"))
    .sort();
}

const given = process.argv.slice(2);
const files = given.length > 0 ? given : testFiles();
if (files.length === 0) throw new Error("no test files found: the runner itself is broken");
const node = ["--conditions=nereid-source", "--import", "tsx"];
const args = [...node, "--test", "--test-concurrency=2", `--test-timeout=${FILE_TIMEOUT_MS}`, ...files];
const { status } = spawnSync(process.execPath, args, { stdio: "inherit" });
process.exitCode = status ?? 1;
