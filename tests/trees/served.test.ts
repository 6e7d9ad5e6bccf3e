/** The built server serves a repository in the shape of NVIDIA's examples: several formats, GPU groups, dynamic batching. */
import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import {
  ALL_LIBRARIES,
  differences,
  NUM_FEATURES,
  readTreeCase,
  TREES_VENV,
  trainTrees,
} from "../fakes/tree-models.ts";
import { type PythonVenv, pythonVenv } from "../python-venv.ts";
import { longTestsReason } from "../support/long-tests.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const TOLERANCE = 1e-6;
const MODELS = ["xgboost_one_score", "xgboost_softmax_scores", "lightgbm_classes", "sklearn_forest_classes"];
const NUM_CLIENTS = 16;
const venv: PythonVenv =
  longTestsReason === undefined
    ? await pythonVenv(ALL_LIBRARIES, TREES_VENV)
    : { python: undefined, reason: longTestsReason };
const folder = mkdtempSync(join(tmpdir(), "nereid-served-trees-"));
after(() => rmSync(folder, { recursive: true, force: true }));

interface Answer {
  readonly outputs: readonly { readonly name: string; readonly data: readonly number[] }[];
}

describe("a repository of tree models", { skip: venv.reason }, () => {
  let server: ServerProcess;

  before(async () => {
    await trainTrees(venv.python ?? "", folder, MODELS);
    appendFileSync(join(folder, MODELS[0] ?? "", "config.pbtxt"), "\ninstance_group [ { count: 2 kind: KIND_GPU } ]\n");
    server = await startServerProcess({ repositories: [folder], env: { NEREID_PYTHON: venv.python } });
  });
  after(() => server.stop());

  async function infer(model: string, values: Float32Array): Promise<Answer> {
    const shape = [values.length / NUM_FEATURES, NUM_FEATURES];
    const inputs = [{ name: "input__0", shape, datatype: "FP32", data: [...values] }];
    const response = await fetch(`${server.baseUrl}/v2/models/${model}/infer`, {
      method: "POST",
      body: JSON.stringify({ inputs }),
    });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return JSON.parse(text) as Answer;
  }

  for (const model of MODELS) {
    test(`${model} answers many clients with its library's values`, async () => {
      const { rows, expected } = await readTreeCase(join(folder, model));
      const numRows = rows.length / NUM_FEATURES;
      const wanted = expected.get("output__0") ?? [];
      const width = wanted.length / numRows;
      const ask = async (client: number): Promise<void> => {
        for (let row = client; row < numRows; row += NUM_CLIENTS) {
          const { outputs } = await infer(model, rows.subarray(row * NUM_FEATURES, (row + 1) * NUM_FEATURES));
          const data = outputs.find(({ name }) => name === "output__0")?.data ?? [];
          assert.deepEqual(differences(data, wanted.slice(row * width, (row + 1) * width), TOLERANCE), []);
        }
      };
      await Promise.all(Array.from({ length: NUM_CLIENTS }, (_, client) => ask(client)));
    });
  }

  test("the log names parameters without effect once", () => {
    const lines = server
      .log()
      .split("\n")
      .filter((line) => line.includes("parameters without effect"));
    assert.equal(lines.length, 1);
    assert.match(lines[0] ?? "", /'xgboost_one_score': .*: algo, blocks_per_sm, storage_type/);
  });
});
