/**
 * Runs the test files given, or every one of the workspace, under node's test runner with TypeScript sources. Unit tests share
 * processes (test-processes.ts); `--alone` gives each file its own. The end names the files that failed and those that took longest;
 * the seconds of a whole run are in .cache/test-seconds.json. `--cpu` shows the CPU seconds of each process with all that it starts,
 * which other work on the machine hardly changes. `--long` takes the files that have more to do in `npm run test:long`.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import process from "node:process";
import { run } from "node:test";
import { spec, tap } from "node:test/reporters";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { LOADER_FLAGS } from "../tests/support/source-loader.ts";
import { cpuReport } from "./cpu-report.ts";
import { planTestProcesses, type TestProcess } from "./test-processes.ts";

const ROOTS = [
  "wire/src",
  "client/src",
  "server/src",
  "server/kernels",
  "object-stores/src",
  "images/src",
  "mcp/src",
  "web/src",
  "web/app",
  "retrieval/src",
  "onnx-tools/src",
  "offline/src",
  "perf/src",
  "tools",
  "examples",
  "tests",
];
/** A process that hangs fails, and does not take the whole run with it. */
const DEFAULT_TIMEOUT_SECONDS = "900";
/** Files wait now and then, for packages or for what must not happen: one more than there are processors, and not many. */
const NUM_TOGETHER: number = Math.min(availableParallelism() + 1, 4);
/** Unit tests that share a process, at most. */
const MAX_FILES = 16;
const SECONDS_FILE = ".cache/test-seconds.json";
const NUM_SHOWN = 20;

function testFiles(): string[] {
  return ROOTS.filter((root) => existsSync(root))
    .flatMap((root) => readdirSync(root, { recursive: true, encoding: "utf8" }).map((path) => `${root}/${path}`))
    .filter((path) => path.endsWith(".test.ts") && !path.includes("node_modules"))
    .sort();
}

function isLong(path: string): boolean {
  return /\b(testSize|longTestsReason)\b/.test(readFileSync(path, "utf8"));
}

/** The file that node's runner starts for a process: the test file itself, or one that imports several. */
function entryOf(files: TestProcess, index: number): string {
  const [first = "", ...more] = files;
  if (more.length === 0) return resolve(first);
  const path = join(batchFolder, `${index}.test.mjs`);
  writeFileSync(path, files.map((file) => `import ${JSON.stringify(pathToFileURL(resolve(file)).href)};\n`).join(""));
  return path;
}

/** Each test file starts with the loader of this workspace, and hands it to its own child processes: from any folder. */
const loading = process.execArgv.indexOf("--import");
process.execArgv.splice(Math.max(loading, 0), loading < 0 ? 0 : 2, ...LOADER_FLAGS);

const { values: flags, positionals: given } = parseArgs({
  allowPositionals: true,
  options: {
    alone: { type: "boolean", default: false },
    cpu: { type: "boolean", default: false },
    /** Only files that do more with NEREID_TEST_LONG. */
    long: { type: "boolean", default: false },
    /** For each process. */
    "timeout-seconds": { type: "string", default: DEFAULT_TIMEOUT_SECONDS },
  },
});
const files = given.length > 0 ? given : flags.long ? testFiles().filter(isLong) : testFiles();
if (files.length === 0) throw new Error("no test files found: the runner itself is broken");
const read = files.map((path) => ({ path: relative(".", resolve(path)), source: readFileSync(path, "utf8") }));
const processes = planTestProcesses(read, flags.alone ? 1 : MAX_FILES);
const batchFolder = mkdtempSync(join(tmpdir(), "nereid-test-batches-"));
process.once("exit", () => rmSync(batchFolder, { recursive: true, force: true }));
const cpuFile = join(batchFolder, "cpu");
if (flags.cpu) measureCpu();
if (given.length === 0) translateAll();
const filesByEntry = new Map(processes.map((one, i) => [entryOf(one, i), one]));
const msByFile = new Map<string, number>();
const failedFiles = new Set<string>();
const timeout = Number(flags["timeout-seconds"]) * 1000;
const events = run({ files: [...filesByEntry.keys()], concurrency: NUM_TOGETHER, timeout });
for (const type of ["test:pass", "test:fail"] as const) {
  events.on(type, ({ file = "", name, nesting, details }) => {
    if (type === "test:fail") {
      process.exitCode = 1;
      failedFiles.add(file);
      // The end of a process that crashed or hung is reported under the path of its entry.
      if (filesByEntry.has(name)) failedFiles.add(name);
    }
    if (nesting === 0) msByFile.set(file, (msByFile.get(file) ?? 0) + details.duration_ms);
  });
}
const report = events.compose(process.stdout.isTTY ? new spec() : tap);
report.once("end", () => {
  if (given.length === 0) tellSlowest();
  if (flags.cpu) tellCpu();
  tellFailed();
});
report.pipe(process.stdout, { end: false });

/** A file that cannot be translated is a fault of the test that imports it. */
function translateAll(): void {
  const folders = ROOTS.filter((root) => existsSync(root));
  spawnSync(process.execPath, [fileURLToPath(import.meta.resolve("./loader/translate-all.mjs")), ...folders]);
}

function measureCpu(): void {
  writeFileSync(cpuFile, "");
  Object.assign(process.env, { NEREID_TEST_RUNNER: `${process.pid}`, NEREID_TEST_CPU_FILE: cpuFile });
  process.execArgv.push("--import", import.meta.resolve("./loader/cpu-seconds.mjs"));
}

function tellCpu(): void {
  for (const line of cpuReport(readFileSync(cpuFile, "utf8"), filesByEntry)) process.stdout.write(`# ${line}\n`);
}

/** A process that ended early is named by those of its files of which no test had ended. */
function tellFailed(): void {
  const named = [...failedFiles].flatMap((file) => {
    const batch = filesByEntry.get(file) ?? [];
    if (batch.length < 2) return [relative(".", file)];
    const silent = batch.filter((one) => !msByFile.has(resolve(one)));
    return (silent.length > 0 ? silent : batch).map((one) => `${one} (no result: the process it shares ended early)`);
  });
  const lines = [...new Set(named)].sort().map((file) => `#   ${file}\n`);
  if (lines.length > 0) process.stdout.write(`# Files that failed:\n${lines.join("")}`);
}

/** Seconds are those in tests: the start of a process is not among them. */
function tellSlowest(): void {
  const slowest = [...msByFile].sort(([, a], [, b]) => b - a);
  const seconds = slowest.map(([file, ms]) => [relative(".", file), Number((ms / 1000).toFixed(1))] as const);
  mkdirSync(join(SECONDS_FILE, ".."), { recursive: true });
  writeFileSync(SECONDS_FILE, `${JSON.stringify(Object.fromEntries(seconds), undefined, 1)}\n`);
  const lines = seconds.slice(0, NUM_SHOWN).map(([file, s]) => `${s.toFixed(1).padStart(7)} s  ${file}\n`);
  process.stdout.write(`# Seconds in the tests of the slowest files:\n${lines.map((line) => `#${line}`).join("")}`);
}
