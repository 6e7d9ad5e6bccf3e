import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, test } from "node:test";
import { makeFile } from "./onnx-output.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-make-"));
after(() => rmSync(folder, { recursive: true }));

test("makeFile() puts the last step in place and removes the others, and what a killed run left", async () => {
  const target = join(folder, "new", "model.plan");
  const written: string[] = [];
  await makeFile(target, async (scratch) => {
    const [first, last] = [scratch(), scratch()];
    writeFileSync(first, "first");
    writeFileSync(last, "last");
    written.push(first);
    return last;
  });
  assert.equal(readFileSync(target, "utf8"), "last");
  assert.deepEqual(readdirSync(join(target, "..")), ["model.plan"]);
  const [killed = ""] = written;
  assert.match(basename(killed), /^\.model\.plan\.nereid-partial-/);
  writeFileSync(killed, "half of it");
  await assert.rejects(
    makeFile(target, async (scratch) => {
      writeFileSync(scratch(), "more");
      throw new Error("no");
    }),
    /no/,
  );
  assert.equal(readFileSync(target, "utf8"), "last");
  assert.deepEqual(readdirSync(join(target, "..")), ["model.plan"]);
});
