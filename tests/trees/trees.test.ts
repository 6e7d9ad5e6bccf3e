/** Models of XGBoost, LightGBM and scikit-learn give the answers of these libraries, whatever they are. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { createFilBackend } from "../../server/src/backend/fil/fil-backend.ts";
import { ALL_LIBRARIES, environmentOf, expectEqualAnswers, TREES_VENV, trainTrees } from "../fakes/tree-models.ts";
import { type PythonVenv, pythonVenv } from "../python-venv.ts";
import { longTestsReason } from "../support/long-tests.ts";

const TOLERANCE = 1e-6;
const venv: PythonVenv =
  longTestsReason === undefined
    ? await pythonVenv(ALL_LIBRARIES, TREES_VENV)
    : { python: undefined, reason: longTestsReason };
/** Writes XGBoost's old binary format. */
const oldVenv: PythonVenv =
  longTestsReason === undefined
    ? await pythonVenv(["numpy", "xgboost-cpu==2.1.4"], "trees-old")
    : { python: undefined, reason: longTestsReason };
const folder = mkdtempSync(join(tmpdir(), "nereid-trees-"));
after(() => rmSync(folder, { recursive: true, force: true }));

if (venv.python === undefined) {
  test("models of XGBoost, LightGBM and scikit-learn equal their libraries", { skip: venv.reason });
} else {
  const environment = environmentOf(venv.python);
  await trainTrees(venv.python, folder);
  const names = readdirSync(folder);
  for (const name of names) {
    test(`${name} equals its library to ${TOLERANCE}`, async () => {
      await expectEqualAnswers(createFilBackend({ environment }), join(folder, name), TOLERANCE);
    });
  }
}

test("XGBoost's old binary format equals XGBoost 2.1", { skip: venv.reason ?? oldVenv.reason }, async () => {
  const old = join(folder, "old");
  await trainTrees(oldVenv.python ?? "", old, ["xgboost_old_name"]);
  const backend = createFilBackend({ environment: environmentOf(venv.python ?? "") });
  await expectEqualAnswers(backend, join(old, "xgboost_old_name"), TOLERANCE);
});
