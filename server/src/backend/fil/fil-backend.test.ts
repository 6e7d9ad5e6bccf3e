import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fakeSource, floatsOf, floatTensor, loadInstance, runOnce } from "../../../../tests/fakes/run-instance.ts";
import {
  differences,
  environmentOf,
  expectEqualAnswers,
  NUM_FEATURES,
  readTreeCase,
  TREES_VENV,
  trainTrees,
  XGBOOST_ONLY,
} from "../../../../tests/fakes/tree-models.ts";
import { pythonVenv } from "../../../../tests/python-venv.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { ModelInstance } from "../backend.ts";
import { createFilBackend } from "./fil-backend.ts";

const TOLERANCE = 1e-6;
const CASE = "xgboost_binary";
const venv = await pythonVenv(XGBOOST_ONLY, TREES_VENV);
const folder = mkdtempSync(join(tmpdir(), "nereid-fil-"));
after(() => rmSync(folder, { recursive: true, force: true }));

describe("the backend `fil` with XGBoost", { skip: venv.reason }, () => {
  const backend = createFilBackend({ environment: environmentOf(venv.python ?? "") });
  const model = join(folder, CASE);
  before(() => trainTrees(venv.python ?? "", folder, [CASE]));

  test("gives XGBoost's scores and SHAP values", async () => {
    await expectEqualAnswers(backend, model, TOLERANCE);
  });

  test("computes in several instances at once, on rows that are not aligned", async () => {
    const { config, rows, expected } = await readTreeCase(model);
    const loaded = await backend.load(fakeSource(config, model));
    const names = Array.from({ length: 4 }, (_, index) => `m_0_${index}`);
    const instances = await Promise.all(
      names.map((name) => loaded.createInstance({ name, kind: "KIND_CPU", deviceId: 0 })),
    );
    const tensor = floatTensor("input__0", [rows.length / NUM_FEATURES, NUM_FEATURES], rows);
    const moved = new Uint8Array(tensor.data.byteLength + 1);
    moved.set(tensor.data, 1);
    for (let round = 0; round < 20; round++) {
      const answers = await Promise.all(
        instances.map((instance) => scoresOf(instance, { ...tensor, data: moved.subarray(1) })),
      );
      for (const answer of answers)
        assert.deepEqual(differences(answer, expected.get("output__0") ?? [], TOLERANCE), []);
    }
    for (const instance of instances) await instance.close();
    await loaded.close();
  });

  test("fills tensors in that a configuration lacks", async () => {
    const text =
      'name: "m" backend: "fil" max_batch_size: 4 parameters { key: "model_type" value { string_value: "xgboost_ubj" } }';
    const asked = `${text} parameters { key: "is_classifier" value { string_value: "true" } }`;
    const description = await backend.describe?.(fakeSource(asked, model));
    assert.deepEqual(description, {
      inputs: [{ name: "input__0", dataType: "TYPE_FP32", dims: [-1, NUM_FEATURES] }],
      outputs: [{ name: "output__0", dataType: "TYPE_FP32", dims: [-1, 1] }],
      canBatch: true,
    });
  });

  test("refuses shapes that the model lacks, naming both", async () => {
    const { config } = await readTreeCase(model);
    const wrong: readonly (readonly [string, string, RegExp])[] = [
      ["dims: [ 6 ]", "dims: [ 5 ]", /expected 'input__0' with dims \[ 6 \], the features of the model, got \[ 5 \]/],
      ["dims: [ 2 ]", "dims: [ 3 ]", /expected 'output__0' with dims \[ 1 \] or \[ 2 \], got \[ 3 \]/],
      ["dims: [ 7 ]", "dims: [ 6 ]", /expected 'treeshap_output' with dims \[ 7 \], got \[ 6 \]/],
      ["treeshap_output", "shap", /expected outputs 'output__0' and 'treeshap_output', got 'shap'/],
    ];
    for (const [from, to, message] of wrong) {
      await assert.rejects(backend.load(fakeSource(config.replace(from, to), model)), message);
    }
  });

  test("refuses a broken file in the library's words, without its addresses", async () => {
    const { config } = await readTreeCase(model);
    const broken = join(folder, "broken");
    cpSync(model, broken, { recursive: true });
    writeFileSync(join(broken, "1", "xgboost.ubj"), "{L no model");
    const error = await backend.load(fakeSource(config, broken)).then(
      () => assert.fail("loaded"),
      (reason: Error) => reason,
    );
    assert.match(error.message, /unable to load model 'xgboost_binary' from '.*xgboost\.ubj': XGBoost: /);
    assert.doesNotMatch(error.message, /\[bt\]|0x[0-9a-f]{6}/);
  });

  test("refuses requests with another number of columns", async () => {
    const { config } = await readTreeCase(model);
    await using loaded = await loadInstance(
      createFilBackend({ environment: environmentOf(venv.python ?? "") }),
      config,
      model,
    );
    const narrow = floatTensor("input__0", [1, 5], [1, 2, 3, 4, 5]);
    await assert.rejects(loaded.run([narrow]), /input 'input__0' has 5 columns, the model has 6 features/);
  });
});

test("a library that is missing is an error that names the package", async () => {
  const model = join(folder, "missing");
  mkdirSync(join(model, "1"), { recursive: true });
  writeFileSync(join(model, "1", "model.txt"), "tree\n");
  const config = `name: "m" backend: "fil" max_batch_size: 4 parameters { key: "model_type" value { string_value: "lightgbm" } }
    parameters { key: "is_classifier" value { string_value: "false" } }`;
  const environment = { NEREID_PYTHON: join(folder, "no-python") };
  await assert.rejects(
    createFilBackend({ environment }).load(fakeSource(config, model)),
    /LightGBM is not installed: .*no-python can not be asked for its packages: .*pip install lightgbm, or name the library in NEREID_LIGHTGBM_LIB/,
  );
  const named = `${config} parameters { key: "library" value { string_value: "/none/lib_lightgbm.so" } }`;
  await assert.rejects(
    createFilBackend({ environment }).load(fakeSource(named, model)),
    /LightGBM: '\/none\/lib_lightgbm\.so' is no file, expected lib_lightgbm\.so/,
  );
});

async function scoresOf(instance: ModelInstance, rows: Tensor): Promise<Float32Array> {
  return floatsOf((await runOnce(instance, [rows])).get("output__0"));
}
