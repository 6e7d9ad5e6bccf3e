import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import type { ModelConfig } from "../../core/model-config.ts";
import { readLabels } from "./labels.ts";

const root = mkdtempSync(join(tmpdir(), "nereid-labels-"));
after(() => rmSync(root, { recursive: true }));
const folder = join(root, "m");
mkdirSync(folder);
mkdirSync(join(root, "m_evil"));
writeFileSync(join(root, "secret.txt"), "secret\n");
writeFileSync(join(root, "m_evil", "secret.txt"), "secret\n");
writeFileSync(join(folder, "labels.txt"), "cat\r\ndog\n");
symlinkSync(join(root, "secret.txt"), join(folder, "link.txt"));

const configOf = (file: string): ModelConfig =>
  ({ output: [{ name: "O", label_filename: file }] }) as unknown as ModelConfig;

test("readLabels() reads a line for each label", () => {
  assert.deepEqual(readLabels(configOf("labels.txt"), folder).get("O"), ["cat", "dog"]);
});

test("readLabels() reads no file outside of the model's folder", () => {
  for (const file of ["../secret.txt", "../m_evil/secret.txt", join(root, "secret.txt"), "link.txt"]) {
    assert.throws(
      () => readLabels(configOf(file), folder),
      /inside the model's folder|leaves the model's folder/,
      file,
    );
  }
});
