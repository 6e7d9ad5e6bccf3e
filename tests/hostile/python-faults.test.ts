import assert from "node:assert/strict";
import { test } from "node:test";
import { pythonVenv } from "../python-venv.ts";
import { testSize } from "../support/long-tests.ts";
import { runPythonFaults } from "../support/python-faults.ts";
import { createRandom } from "../support/random.ts";

const NUM_POINTS = testSize(8, 30);
const venv = await pythonVenv(["numpy"]);

test("a Python model that is killed and stopped at random points answers every request once", {
  skip: venv.reason,
  timeout: 900_000,
}, async () => {
  const { points, answered, failed } = await runPythonFaults(
    venv.python ?? "",
    createRandom(6),
    (done) => done >= NUM_POINTS,
  );
  assert.equal(points, NUM_POINTS);
  assert.ok(answered > 0);
  assert.ok(failed <= 2 * NUM_POINTS, `${failed} requests failed at ${NUM_POINTS} points`);
});
