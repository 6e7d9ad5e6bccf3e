import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { isSafeModelName, resolveContained } from "./path-containment.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "nereid-beneath-")));
after(() => rmSync(folder, { recursive: true }));
mkdirSync(join(folder, "model", "sub"), { recursive: true });
mkdirSync(join(folder, "model_evil"));
writeFileSync(join(folder, "model", "labels.txt"), "");
writeFileSync(join(folder, "model_evil", "labels.txt"), "");
writeFileSync(join(folder, "outside.txt"), "");
symlinkSync("../outside.txt", join(folder, "model", "link-out"));
symlinkSync("../model_evil/labels.txt", join(folder, "model", "link-beside"));
symlinkSync("labels.txt", join(folder, "model", "link-in"));
symlinkSync("model", join(folder, "model-link"));

test("resolveContained() finds files of the folder, through links that stay inside and for a folder that is a link itself", () => {
  const file = join(folder, "model", "labels.txt");
  assert.equal(resolveContained(join(folder, "model"), "labels.txt"), file);
  assert.equal(resolveContained(join(folder, "model"), "link-in"), file);
  assert.equal(resolveContained(join(folder, "model-link"), "labels.txt"), file);
});

for (const path of ["../outside.txt", "link-out", "link-beside", "/etc/passwd", "sub/../../outside.txt", "a\0b", ""]) {
  test(`resolveContained() refuses ${JSON.stringify(path)}`, () => {
    assert.throws(() => resolveContained(join(folder, "model"), path), { code: "invalid_argument" });
  });
}

test("resolveContained() says which file is missing", () => {
  assert.throws(() => resolveContained(join(folder, "model"), "nope.txt"), {
    code: "not_found",
    message: /'nope\.txt'/,
  });
});

test("isSafeModelName() takes names with dots and refuses those that are paths", () => {
  const names = ["a", "a..b", "a.b", "..", ".", "", "a/b", "a\\b", "a\0"];
  assert.deepEqual(names.filter(isSafeModelName), ["a", "a..b", "a.b"]);
});
