import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { findPythonLibrary, type PythonLibrarySpec } from "./python-library.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-python-library-"));
after(() => rmSync(folder, { recursive: true, force: true }));
mkdirSync(join(folder, "xgboost"));
for (const name of ["libtree.so.9", "libtree.so.10"]) writeFileSync(join(folder, "xgboost", name), "");

const SPEC: PythonLibrarySpec = {
  title: "Trees",
  pipName: "trees",
  override: "NEREID_XGBOOST_LIB",
  setting: "fil,library",
  file: "xgboost/libtree.so*",
};
const search = (environment: Readonly<Record<string, string>> = {}) => ({
  environment,
  packageFolders: async () => ["", "/none", folder],
});

test("findPythonLibrary() takes the newest version in the packages of the interpreter", async () => {
  assert.equal(await findPythonLibrary(SPEC, undefined, search()), join(folder, "xgboost/libtree.so.10"));
});

test("findPythonLibrary() takes a named path before the environment, and that before packages", async () => {
  const [nine, ten] = [join(folder, "xgboost/libtree.so.9"), join(folder, "xgboost/libtree.so.10")];
  assert.equal(await findPythonLibrary(SPEC, nine, search({ NEREID_XGBOOST_LIB: ten })), nine);
  assert.equal(await findPythonLibrary(SPEC, undefined, search({ NEREID_XGBOOST_LIB: nine })), nine);
});

test("findPythonLibrary() does not go on behind a wrong path", async () => {
  await assert.rejects(findPythonLibrary(SPEC, "/none/libtree.so", search()), /'\/none\/libtree\.so' is no file/);
});

test("findPythonLibrary() names what it searched and what to install", async () => {
  const lookUp = { environment: {}, packageFolders: async () => ["/none"] };
  await assert.rejects(
    findPythonLibrary(SPEC, undefined, lookUp),
    /Trees is not installed: found no xgboost\/libtree\.so\* in the packages of python3 \(\/none\); pip install trees/,
  );
});

test("findPythonLibrary() asks the interpreter that runs Python models", async () => {
  const python = join(folder, "python");
  writeFileSync(python, `#!/bin/sh\necho '["${folder}"]'\n`, { mode: 0o755 });
  const { LazyPythonLibrary } = await import("./python-library.ts");
  const lazy = new LazyPythonLibrary(SPEC, (path) => ({ path }), { NEREID_PYTHON: python });
  assert.deepEqual(await lazy.get(undefined), { path: join(folder, "xgboost/libtree.so.10") });
});
