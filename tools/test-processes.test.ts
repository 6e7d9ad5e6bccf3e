import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { LOADER_FLAGS } from "../tests/support/source-loader.ts";
import { needsOwnProcess, planTestProcesses, type TestFile } from "./test-processes.ts";

const RUNNER = fileURLToPath(new URL("run-tests.ts", import.meta.url));
const PLAIN = 'test("one", () => {});';
const unit = (name: string, source = PLAIN): TestFile => ({ path: `server/src/${name}.test.ts`, source });

for (const [what, source] of [
  ["hooks around every test", "beforeEach(() => {});"],
  ["a variable of the environment", 'process.env.TMPDIR = "/x";'],
  ["a variable that is computed", 'process.env[name] = "/x";'],
  ["a variable taken away", "delete process.env.TMPDIR;"],
  ["flags of V8", 'setFlagsFromString("--expose-gc");'],
  ["measured memory", "const { rss } = process.memoryUsage();"],
  ["an end of the process", "process.exit(0);"],
] as const) {
  test(`needsOwnProcess() is true for ${what}`, () => {
    assert.equal(needsOwnProcess(unit("a", source)), true);
  });
}

test("needsOwnProcess() is false for unit tests, hooks of one file included, and true beyond unit folders", () => {
  assert.equal(needsOwnProcess(unit("a", "before(open);\nafter(close);\nprocess.env.HOME === home;")), false);
  assert.equal(needsOwnProcess({ path: "server/kernels/a.test.ts", source: PLAIN }), false);
  assert.equal(needsOwnProcess({ path: "tests/golden/golden.test.ts", source: PLAIN }), true);
  assert.equal(needsOwnProcess({ path: "examples/a.test.ts", source: PLAIN }), true);
});

test("planTestProcesses() runs every file once, alone ones first, and fills processes evenly with neighbours", () => {
  const files = [...["a", "b", "c", "d", "e"].map((name) => unit(name)), { path: "tests/x.test.ts", source: PLAIN }];
  const [alone, ...batches] = planTestProcesses(files, 3);
  assert.deepEqual(alone, ["tests/x.test.ts"]);
  assert.deepEqual(
    batches.map((batch) => batch.map((path) => path.at(-9))),
    [
      ["a", "b"],
      ["c", "d", "e"],
    ],
  );
});

interface Outcome {
  readonly code: number | null;
  readonly text: string;
}

/** The runner in a folder where these unit tests share a process. */
function runTogether(sources: Readonly<Record<string, string>>, ...flags: readonly string[]): Outcome {
  const folder = mkdtempSync(join(tmpdir(), "nereid-runner-"));
  try {
    mkdirSync(join(folder, "wire/src"), { recursive: true });
    for (const [name, source] of Object.entries(sources)) {
      writeFileSync(join(folder, `wire/src/${name}.test.ts`), `import { test } from "node:test";\n${source}`);
    }
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const argv = [...LOADER_FLAGS, RUNNER, ...flags];
    const { status, stdout, stderr } = spawnSync(process.execPath, argv, { cwd: folder, env, encoding: "utf8" });
    return { code: status, text: stdout + stderr };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const PASSES = 'test("passes", () => {});';

test("the runner counts the tests of files that share a process", () => {
  const { code, text } = runTogether({ a: PASSES, b: PASSES, c: `${PASSES}\n${PASSES}` });
  assert.equal(code, 0, text);
  assert.match(text, /^# tests 4$/m);
  assert.match(text, /^# pass 4$/m);
  assert.match(text, /^# fail 0$/m);
  assert.doesNotMatch(text, /Files that failed/);
});

test("the runner names the file with the test that fails, among those of its process", () => {
  const { code, text } = runTogether({ a: PASSES, b: 'test("fails", () => { throw new Error("no"); });', c: PASSES });
  assert.equal(code, 1, text);
  assert.match(text, /^# pass 2$/m);
  assert.match(text, /^# fail 1$/m);
  assert.match(text, /# Files that failed:\n# {3}wire\/src\/b\.test\.ts\n$/);
});

test("the runner names a file that cannot be loaded", () => {
  const { code, text } = runTogether({ a: PASSES, b: 'throw new Error("broken");' });
  assert.equal(code, 1, text);
  assert.match(text, /# Files that failed:\n[\s\S]*wire\/src\/b\.test\.ts/);
});

test("the runner ends a process that hangs and names the file without a result", () => {
  const hangs = 'test("hangs", () => new Promise(() => setInterval(() => {}, 1000)));';
  const { code, text } = runTogether({ a: PASSES, b: hangs }, "--timeout-seconds=4");
  assert.equal(code, 1, text);
  assert.match(text, /# Files that failed:\n# {3}wire\/src\/b\.test\.ts \(no result/);
});
