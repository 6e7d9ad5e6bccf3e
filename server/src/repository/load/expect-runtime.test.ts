import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { sourceOf } from "../../../../tests/fakes/python-models.ts";
import { emptyModelConfig } from "../../config/model/model-config.ts";
import { createBackends, isPythonBased } from "../../main/backends.ts";
import { expectRuntime } from "./expect-runtime.ts";

const directory = mkdtempSync(join(tmpdir(), "nereid-backends-"));
mkdirSync(join(directory, "add_sub"));
writeFileSync(join(directory, "add_sub", "model.py"), "");
after(() => rmSync(directory, { recursive: true }));

const CASES: readonly (readonly [string, string, RegExp | undefined])[] = [
  ["identity", "", undefined],
  ["identity", "libtriton_identity.so", undefined],
  [
    "identity",
    "__invalid_runtime__",
    /unable to find backend library '__invalid_runtime__' for model 'm', searched: '/,
  ],
  ["identity", "libtriton_repeat.so", /unable to find backend library 'libtriton_repeat.so' for model 'm'/],
  ["identity", "../x/libtriton_identity.so", /backend library name '..\/x\/libtriton_identity.so' escapes backend dir/],
  ["identity", "a/../../b.so", /escapes backend directory '.*\/identity', for model 'm', check model config runtime/],
  ["identity", "/lib/x.so", /escapes backend directory/],
  ["identity", "model.py", /unable to find Python backend based backend library 'model.py' for model 'm', searched: '/],
  ["python", "model.py", /unable to find Python backend based backend library/],
  ["add_sub", "model.py", undefined],
  ["vllm", "model.py", undefined],
  ["pytorch", "libtriton_pytorch.so", undefined],
];
for (const [backend, runtime, expected] of CASES) {
  test(`runtime '${runtime}' of backend ${backend} is ${expected === undefined ? "taken" : "refused"}`, async () => {
    const config = { ...emptyModelConfig(), name: "m", backend, runtime };
    const source = await sourceOf("", { config, settings: new Map([["backend-directory", directory]]) });
    if (expected === undefined) expectRuntime(source);
    else assert.throws(() => expectRuntime(source), { code: "invalid_argument", message: expected });
  });
}

test("a folder of backends with model.py is a backend from the moment that a model names it", () => {
  const unavailable = async (): Promise<never> => Promise.reject(new Error("no model control"));
  const backends = createBackends({ load: unavailable, unload: unavailable, modelReady: unavailable }, directory);
  assert.equal(backends.get("add_sub")?.name, "add_sub");
  assert.equal(backends.get("add_sub"), backends.get("add_sub"));
  for (const name of ["../add_sub", "", ".", "add_sub/../add_sub"]) {
    assert.equal(backends.get(name), undefined, name);
    assert.equal(isPythonBased(name, directory), false, name);
  }
  mkdirSync(join(directory, "later"));
  assert.equal(isPythonBased("later", directory), false);
  assert.equal(backends.get("later")?.findsRuntime, true); // it may have a library
  writeFileSync(join(directory, "later", "model.py"), "");
  assert.deepEqual([backends.get("later")?.name, backends.get("later")?.findsRuntime], ["later", undefined]);
});
