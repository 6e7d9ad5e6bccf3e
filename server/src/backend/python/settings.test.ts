import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { EMPTY_CONFIG } from "../../../../tests/fakes/python-models.ts";
import { backendEnvironment, modelFile, readSettings } from "./settings.ts";

const NONE: ReadonlyMap<string, string> = new Map();

test("`readSettings()` takes setting before environment before PATH when it looks for an interpreter", () => {
  const setting = new Map([["interpreter", "/a/python"]]);
  const environment = { NEREID_PYTHON: "/b/python" };
  const found = [
    readSettings(setting, EMPTY_CONFIG, "/m", environment),
    readSettings(NONE, EMPTY_CONFIG, "/m", environment),
    readSettings(NONE, EMPTY_CONFIG, "/m", {}),
  ].map(({ interpreter }) => interpreter);
  assert.deepEqual(found, ["/a/python", "/b/python", "python3"]);
});

test("`readSettings()` finds the model's folder in the path of its environment", () => {
  const parameters = { EXECUTION_ENV_PATH: { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } };
  const { environmentPath } = readSettings(NONE, { ...EMPTY_CONFIG, parameters }, "/models/m", {});
  assert.equal(environmentPath, "/models/m/env.tar.gz");
});

const REFUSED: readonly (readonly [
  string,
  Record<string, string>,
  Record<string, { string_value: string }>,
  RegExp,
])[] = [
  ["the timeout is zero", { "stub-timeout-seconds": "0" }, {}, /can't be smaller than or equal to zero\./],
  ["the timeout is no number", { "stub-timeout-seconds": "x" }, {}, /must be a number of seconds, got 'x'/],
  [
    "a switch has another value",
    {},
    { FORCE_CPU_ONLY_INPUT_TENSORS: { string_value: "maybe" } },
    /Incorrect value for FORCE/,
  ],
];
for (const [what, settings, parameters, expected] of REFUSED) {
  test(`\`readSettings()\` refuses when ${what}`, () => {
    const config = { ...EMPTY_CONFIG, parameters };
    assert.throws(() => readSettings(new Map(Object.entries(settings)), config, "/m", {}), expected);
  });
}

for (const [written, file] of [
  ["", "model.py"],
  ["other.py", "other.py"],
  ["./sub/other.py", "sub/other.py"],
] as const) {
  test(`\`modelFile()\` gives ${file} when the configuration says '${written}'`, () => {
    assert.equal(modelFile({ ...EMPTY_CONFIG, default_model_filename: written }), file);
  });
}

for (const written of ["../model.py", "/etc/model.py", "a/../../model.py"]) {
  test(`\`modelFile()\` refuses when '${written}' lies outside`, () => {
    assert.throws(
      () => modelFile({ ...EMPTY_CONFIG, default_model_filename: written }),
      /lies outside its version folder/,
    );
  });
}

test("`backendEnvironment()` finds what lies beside the code of a backend, and nothing beside a model's own", async () => {
  const folder = await mkdtemp(join(tmpdir(), "nereid-environment-"));
  const archive = join(folder, "pb_exec_env_model.py.tar.gz");
  assert.equal(backendEnvironment(join(folder, "model.py")), undefined);
  await writeFile(archive, "");
  assert.equal(backendEnvironment(join(folder, "model.py")), archive);
  assert.equal(backendEnvironment("model.py"), undefined);
  await rm(folder, { recursive: true });
});
