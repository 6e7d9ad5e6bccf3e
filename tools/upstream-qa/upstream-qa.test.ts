import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { qaPage, withQaPage } from "./page.ts";
import { knownReason } from "./reasons.ts";
import {
  type CaseRun,
  casesOf,
  firstError,
  mergeResults,
  parseResults,
  printResults,
  scriptCases,
  scriptFailures,
} from "./results.ts";
import { onCpu } from "./substitute.ts";
import { excludedReason, SUITES } from "./suites.ts";

function run(name: string, outcome: CaseRun["outcome"], reason = ""): CaseRun {
  return { file: "a_test.py", name, outcome, reason };
}

test("casesOf() joins the runs of a case: one failure fails it, and it is skipped when all runs are", () => {
  const runs = [
    run("A.x", "passed"),
    run("A.x", "failed", "boom"),
    run("A.y", "skipped", "no GPU"),
    run("A.z", "passed"),
  ];
  assert.deepEqual(
    casesOf("L0_a", [...runs, run("A.z", "skipped")]).map(({ name, outcome, runs: n, failures, reason }) => [
      name,
      outcome,
      n,
      failures,
      reason,
    ]),
    [
      ["A.x", "failed", 2, 1, "boom"],
      ["A.y", "skipped", 1, 0, "no GPU"],
      ["A.z", "passed", 2, 0, ""],
    ],
  );
});

test("scriptFailures() reads what scripts print between stars", () => {
  const output =
    "x\n***\n*** Failed to start /opt/s\n***\n\n***\n*** Test Failed\n***\n*** Test Passed\n*** Failed to start /opt/s\n";
  assert.deepEqual(scriptFailures(output), ["Failed to start /opt/s"]);
});

test("scriptCases() reads the cases that a script names before it runs them", () => {
  const output = "Test Passed before\nTest on a/b\nfound\nTest c\nNot found x\n*** FAILED: c\n";
  const [, ...cases] = scriptCases(output);
  assert.deepEqual(
    cases.map(({ name, outcome, reason }) => [name, outcome, reason]),
    [
      ["a/b", "passed", ""],
      ["c", "failed", "Not found x *** FAILED: c"],
    ],
  );
});

test("a server that does not start is explained by its log", () => {
  const output = '*** Failed to start /opt/s\nI1124 a.cc:1] "x"\nE1124 19:46:31.684549 18 b.cc:1] "Poll failed: why"\n';
  const name = "Failed to start /opt/s";
  const [result] = casesOf("L0_x", [{ file: "test.sh", name, outcome: "failed", reason: firstError(output, name) }]);
  assert.ok(result !== undefined);
  assert.equal(knownReason(result), "the server did not start: Poll failed: why");
  const whole = { ...result, name: "exit status 0", reason: "1" };
  assert.equal(knownReason(whole), undefined);
  assert.equal(knownReason(whole, [whole, result]), "cases of the script fail, see the other rows");
});

test("mergeResults() replaces the results of a suite and keeps the others, and files hold what was written", () => {
  const old = [...casesOf("L0_b", [run("B.x", "failed", "old")]), ...casesOf("L0_c", [run("C.x", "passed")])];
  const merged = mergeResults(old, "L0_b", casesOf("L0_b", [run("B.x", "passed")]));
  assert.deepEqual(
    merged.map(({ suite, outcome }) => [suite, outcome]),
    [
      ["L0_b", "passed"],
      ["L0_c", "passed"],
    ],
  );
  assert.deepEqual(parseResults(printResults(merged)), merged);
});

test("qaPage() counts suites and gives each case that does not pass its reason", () => {
  const results = casesOf("L0_a", [
    run("A.ok", "passed"),
    run("A.gpu", "failed", "CudaSharedMemoryException: unable"),
    run("A.odd", "failed", "1 != 2 | <x>"),
    run("A.odd", "passed"),
  ]);
  const lines = qaPage(results).split("\n");
  assert.deepEqual(lines.slice(2, 4), ["| L0_a | 1 | 2 | 0 |", "| **all** | 1 | 2 | 0 |"]);
  assert.deepEqual(lines.slice(7), [
    "| L0_a | gpu | needs a GPU |",
    "| L0_a | odd (1 of 2 runs) | not explained yet: 1 != 2 \\| &lt;x> |",
  ]);
});

test("withQaPage() replaces what is between the marks and nothing else", () => {
  const page = (text: string): string =>
    `a\n<!-- original files: begin -->\n\n${text}\n\n<!-- original files: end -->\nb\n`;
  assert.equal(withQaPage(page("old"), "new"), page("new"));
  assert.throws(() => withQaPage("no marks", "x"), /must have the marks/);
});

test("onCpu() moves instance groups to the CPU", () => {
  assert.equal(
    onCpu("kind: KIND_GPU, gpus: [ 0, 1 ], count: 2", true).replaceAll(/ +/g, " "),
    "kind: KIND_CPU, count: 2",
  );
  assert.equal(onCpu("grep gpus: 1 KIND_GPU", false), "grep gpus: 1 KIND_CPU");
  const both = ["GPU", "CPU"].map(
    (kind) => `sed -i "s/kind: KIND_${kind}/kind: KIND_${kind}\\\\ncount: 4/" config.pbtxt`,
  );
  const onlyOne = String.raw`(sed -i "s/kind: KIND_CPU/kind: KIND_CPU\\ncount: 4/" config.pbtxt)`;
  assert.equal(onCpu(`(${both.join(" && \\\n   ")})`, false), onlyOne);
});

test("a suite runs or has a reason why not", () => {
  assert.equal(excludedReason("L0_infer"), undefined);
  assert.equal(excludedReason("L0_libtorch_io_names"), "PyTorch models");
  assert.equal(excludedReason("L0_simple_lib"), "programs that link libtritonserver");
  assert.ok(Object.keys(SUITES).length > 40);
});

test("the page shows the stored results", () => {
  const stored = new URL("results.jsonl", import.meta.url);
  assert.ok(existsSync(stored), "run tools/upstream-qa/main.ts first");
  const page = readFileSync(new URL("../../docs/upstream-tests.md", import.meta.url), "utf8");
  const message = "run `node --import tsx tools/upstream-qa/main.ts --page`";
  assert.equal(withQaPage(page, qaPage(parseResults(readFileSync(stored, "utf8")))), page, message);
});
