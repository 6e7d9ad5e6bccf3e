import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { writeOverrideFolder } from "./override-folder.ts";

const file = (path: string): Map<string, Uint8Array> => new Map([[path, Buffer.from("x")]]);

test("writeOverrideFolder() writes files and removes them again", () => {
  const folder = writeOverrideFolder("m", file("1/sub/model.py"));
  assert.equal(readFileSync(join(folder.root, "m/1/sub/model.py"), "utf8"), "x");
  folder[Symbol.dispose]();
  assert.equal(existsSync(folder.root), false);
});

test("writeOverrideFolder() refuses files thousands of folders deep", () => {
  for (const depth of [33, 2000]) {
    assert.throws(() => writeOverrideFolder("m", file(`${"a/".repeat(depth - 1)}x`)), /expected at most 32/);
  }
  writeOverrideFolder("m", file(`${"a/".repeat(31)}x`))[Symbol.dispose]();
});

test("writeOverrideFolder() refuses paths that leave the folder", () => {
  for (const path of ["../x", "1/../../x", "/etc/x", "a\\..\\x", "", "a\0b"]) {
    assert.throws(() => writeOverrideFolder("m", file(path)), /no relative path inside/, path);
  }
});
