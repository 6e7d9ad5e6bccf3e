import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { findLibrary, installedLibraries, type LibrarySpec } from "./library.ts";

const root = mkdtempSync(join(tmpdir(), "nereid-library-"));
function file(path: string): string {
  const full = join(root, path);
  mkdirSync(join(full, ".."), { recursive: true });
  writeFileSync(full, "");
  return full;
}
const override = file("elsewhere/libx.so.1");
const own = file("own/libx.so.1");
file("foreign/bin/napi-v3/linux/libx.so.1");
const newest = file("foreign/bin/napi-v10/linux/libx.so.1");

const spec: LibrarySpec = {
  title: "Library X",
  override: "NEREID_ONNXRUNTIME_LIB",
  fileName: "libx.so.1",
  packages: [
    { name: "own", folders: ["."] },
    { name: "foreign", folders: ["bin/napi-v*/linux"] },
  ],
};
const lookUp = (environment: Record<string, string>, installed: readonly string[]) => ({
  environment,
  packageFolder: (name: string) => (installed.includes(name) ? join(root, name) : undefined),
});

test("findLibrary() takes the override, then our package, then the newest of a foreign one", () => {
  const table: [Record<string, string>, string[], string][] = [
    [{ NEREID_ONNXRUNTIME_LIB: override }, ["own", "foreign"], override],
    [{ NEREID_ONNXRUNTIME_LIB: "" }, ["own", "foreign"], own],
    [{}, ["own", "foreign"], own],
    [{}, ["foreign"], newest],
  ];
  for (const [environment, installed, expected] of table) {
    assert.equal(findLibrary(spec, lookUp(environment, installed)), expected);
  }
});

test("findLibrary() names every place searched and what to do", () => {
  assert.throws(
    () => findLibrary({ ...spec, fileName: "liby.so" }, lookUp({}, ["foreign"])),
    (error: Error) => {
      assert.match(error.message, /Library X is not installed/);
      assert.match(error.message, /package own \(not installed\)/);
      assert.match(error.message, /foreign\/bin\/napi-v10\/linux\/liby\.so/);
      assert.match(error.message, /set NEREID_ONNXRUNTIME_LIB/);
      return true;
    },
  );
});

test("findLibrary() does not fall back when the override is wrong", () => {
  assert.throws(
    () => findLibrary(spec, lookUp({ NEREID_ONNXRUNTIME_LIB: "/nowhere/libx.so.1" }, ["own"])),
    /\/nowhere\/libx\.so\.1/,
  );
});

test("installedLibraries() finds an installed package and no other", () => {
  const { packageFolder } = installedLibraries();
  assert.match(packageFolder("koffi") ?? "", /node_modules\/koffi$/);
  assert.equal(packageFolder("no-such-package-anywhere"), undefined);
});
