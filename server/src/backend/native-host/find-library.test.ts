import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { findLibrary } from "./find-library.ts";

const root = realpathSync(mkdtempSync(join(tmpdir(), "nereid-libraries-")));
after(() => rmSync(root, { recursive: true, force: true }));

/** A model folder and a folder of backends with these files. */
function folders(name: string, files: readonly string[]) {
  const folder = join(root, name);
  for (const file of ["backends/.keep", "m/1/.keep", ...files]) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), "");
  }
  const modelFolder = join(folder, "m");
  const find = (runtime = "", backend = "own") =>
    findLibrary(
      { name: "m", config: { backend, runtime }, modelFolder, versionFolder: join(modelFolder, "1") },
      join(folder, "backends"),
    );
  return { folder, find };
}

const ALL = ["m/1/libtriton_own.so", "m/libtriton_own.so", "backends/own/libtriton_own.so"];

for (const [at, file] of ALL.entries()) {
  test(`findLibrary() finds ${file} when the folders before it have none`, () => {
    const { folder, find } = folders(`order-${at}`, ALL.slice(at));
    assert.equal(find(), join(folder, file));
  });
}

test("findLibrary() finds the file that `runtime` names, and nothing where there is none", () => {
  const { folder, find } = folders("runtime", ["backends/own/libtriton_other.so"]);
  assert.equal(find("libtriton_other.so"), join(folder, "backends/own/libtriton_other.so"));
  assert.deepEqual(
    [find(), find("model.py"), find("", ".."), find("", "a/b")],
    [undefined, undefined, undefined, undefined],
  );
});

test("findLibrary() refuses names and links that leave their folder", () => {
  const { folder, find } = folders("escape", ["outside.so"]);
  for (const runtime of ["../../outside.so", join(folder, "outside.so"), "a/../../../outside.so"]) {
    assert.throws(() => find(runtime), /backend library name '.*' escapes backend directory '.*', for model 'm'/);
  }
  symlinkSync(join(folder, "outside.so"), join(folder, "m/libtriton_own.so"));
  assert.throws(() => find(), /the backend library '.*libtriton_own\.so' of model 'm' leads out of '.*\/m'/);
});

test("findLibrary() follows a link inside the model's folder", () => {
  const { folder, find } = folders("link", ["m/libraries/1.so"]);
  symlinkSync("../libraries/1.so", join(folder, "m/1/libtriton_own.so"));
  assert.equal(find(), join(folder, "m/libraries/1.so"));
});
