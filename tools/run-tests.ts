/**
 * Runs the test files given, or every one of the workspace, under node's test runner with TypeScript sources. A whole run says in
 * the end which files took longest; all of them are in .cache/test-seconds.json.
 */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { relative, resolve } from "node:path";
import process from "node:process";
import { run } from "node:test";
import { spec, tap } from "node:test/reporters";

const ROOTS = [
  "wire/src",
  "client/src",
  "server/src",
  "server/kernels",
  "object-stores/src",
  "images/src",
  "retrieval/src",
  "onnx-tools/src",
  "offline/src",
  "tools",
  "examples",
  "tests",
];
/** A file that hangs fails, and does not take the whole run with it. */
const FILE_TIMEOUT_MS = 300_000;
/** Files wait now and then, for packages or for what must not happen: one more than there are processors, and not many. */
const NUM_TOGETHER: number = Math.min(availableParallelism() + 1, 4);
const SECONDS_FILE = ".cache/test-seconds.json";
const NUM_SHOWN = 20;

function testFiles(): string[] {
  return ROOTS.filter((root) => existsSync(root))
    .flatMap((root) => readdirSync(root, { recursive: true, encoding: "utf8" }).map((path) => `${root}/${path}`))
    .filter((path) => path.endsWith(".test.ts") && !path.includes("node_modules"))
    .sort();
}

const given = process.argv.slice(2);
const files = given.length > 0 ? given : testFiles();
if (files.length === 0) throw new Error("no test files found: the runner itself is broken");
const msByFile = new Map<string, number>();
const events = run({ files: files.map((file) => resolve(file)), concurrency: NUM_TOGETHER, timeout: FILE_TIMEOUT_MS });
for (const type of ["test:pass", "test:fail"] as const) {
  events.on(type, ({ file = "", nesting, details }) => {
    if (type === "test:fail") process.exitCode = 1;
    if (nesting === 0) msByFile.set(file, (msByFile.get(file) ?? 0) + details.duration_ms);
  });
}
if (given.length === 0) events.once("end", tellSlowest);
events.compose(process.stdout.isTTY ? new spec() : tap).pipe(process.stdout);

/** Seconds are those in tests: a file's start is not among them. */
function tellSlowest(): void {
  const slowest = [...msByFile].sort(([, a], [, b]) => b - a);
  const seconds = slowest.map(([file, ms]) => [relative(".", file), Number((ms / 1000).toFixed(1))] as const);
  mkdirSync(".cache", { recursive: true });
  writeFileSync(SECONDS_FILE, `${JSON.stringify(Object.fromEntries(seconds), undefined, 1)}\n`);
  const lines = seconds.slice(0, NUM_SHOWN).map(([file, s]) => `${s.toFixed(1).padStart(7)} s  ${file}\n`);
  process.stdout.write(`Seconds in the tests of the slowest files:\n${lines.join("")}`);
}
