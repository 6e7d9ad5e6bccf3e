import assert from "node:assert/strict";
import { test } from "node:test";
import { readResults, resultTable } from "./results.ts";

const XML = `<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.test_a.TestA" name="test_one[x&gt;1]" time="0.1" />
<testcase classname="tests.test_a.TestA" name="test_two" time="0.1"><failure message="assert 1 | 2&#10;more">text</failure></testcase>
<testcase classname="tests.test_b" name="test_three" time="0.1"><skipped type="pytest.skip" message="later">text</skipped></testcase>
</testsuite></testsuites>`;

test("readResults() reads outcomes and first lines of reasons", () => {
  assert.deepEqual(readResults(XML), [
    { file: "test_a", name: "test_one[x>1]", outcome: "passed", reason: "" },
    { file: "test_a", name: "test_two", outcome: "failed", reason: "assert 1 | 2" },
    { file: "test_b", name: "test_three", outcome: "skipped", reason: "later" },
  ]);
});

test("resultTable() counts by file and lists what did not pass", () => {
  const table = resultTable(readResults(XML));
  assert.match(table, /\| test_a\.py \| 1 \| 1 \| 0 \|/);
  assert.match(table, /\| test_a: test_two \| failed \| assert 1 \\\| 2 \|/);
  assert.doesNotMatch(table, /test_one/);
});
