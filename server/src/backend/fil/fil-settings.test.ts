import assert from "node:assert/strict";
import { test } from "node:test";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import { parseFilSettings } from "./fil-settings.ts";

function configWith(parameters: Readonly<Record<string, string>>): ReturnType<typeof parseModelConfigText> {
  const listed = Object.entries(parameters).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
  );
  return parseModelConfigText(`name: "m" backend: "fil" ${listed.join(" ")}`, "config.pbtxt");
}

test("parseFilSettings() reads the parameters of today's and of older releases", () => {
  assert.deepEqual(parseFilSettings(configWith({ is_classifier: "true", model_type: "lightgbm", threshold: "0.3" })), {
    format: "lightgbm",
    isClassifier: true,
    predictsScores: false,
    threshold: 0.3,
    numThreads: 0,
    library: undefined,
    note: undefined,
  });
  const old = parseFilSettings(configWith({ output_class: "false", predict_proba: "True", cpu_nthread: "-1" }));
  assert.deepEqual([old.format, old.isClassifier, old.predictsScores, old.numThreads], ["xgboost", false, true, 0]);
});

test("parseFilSettings() names parameters without effect in one line", () => {
  const { note } = parseFilSettings(configWith({ is_classifier: "1", storage_type: "AUTO", algo: "NAIVE", team: "a" }));
  assert.equal(note, "model 'm': parameters without effect on this engine: algo, storage_type, team");
});

for (const [parameters, message] of [
  [{}, /expected the parameter 'is_classifier' \(before 25\.09: 'output_class'\) to be true or false, got none/],
  [{ is_classifier: "yes" }, /expected the parameter 'is_classifier' to be true or false, got 'yes'/],
  [{ is_classifier: "true", threshold: "half" }, /expected the parameter 'threshold' to be a number, got 'half'/],
  [
    { is_classifier: "true", predict_probas: "true" },
    /unknown parameter 'predict_probas', did you mean 'predict_proba'\?/,
  ],
  [{ is_classifier: "true", model_type: "catboost" }, /expected model_type to be xgboost, .*, got 'catboost'/],
] as const) {
  test(`parseFilSettings() refuses ${JSON.stringify(parameters)}`, () => {
    assert.throws(() => parseFilSettings(configWith(parameters)), message);
  });
}
