import assert from "node:assert/strict";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { EMPTY_CONFIG } from "../../../../tests/fakes/python-models.ts";
import { modelFile, readSettings } from "./settings.ts";

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

test("`readSettings()` takes the model's environment when its folder has an interpreter", async () => {
  const folder = await mkdtemp(join(tmpdir(), "nereid-env-"));
  await mkdir(join(folder, "env", "bin"), { recursive: true });
  await writeFile(join(folder, "env", "bin", "python3"), "");
  const parameters = { EXECUTION_ENV_PATH: { string_value: "$$TRITON_MODEL_DIRECTORY/env" } };
  const { interpreter } = readSettings(NONE, { ...EMPTY_CONFIG, parameters }, folder, {});
  assert.equal(interpreter, join(folder, "env", "bin", "python3"));
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
  [
    "the environment is missing",
    {},
    { EXECUTION_ENV_PATH: { string_value: "/no/such" } },
    /must be a folder with an interpreter/,
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
