import assert from "node:assert/strict";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { modelAt } from "./sagemaker-models.ts";

const root = mkdtempSync(join(tmpdir(), "nereid-sagemaker-"));
after(() => rmSync(root, { recursive: true }));
symlinkSync("/proc", join(root, "link"));

test("modelAt() takes no folder of the system, named or behind a link", () => {
  for (const url of ["/proc", "/proc/self", "/sys/kernel", "/dev/shm", join(root, "link"), `${root}/../../proc/self`]) {
    const roots = { repositories: [root], sagemaker: "/opt/ml/models" };
    assert.throws(() => modelAt(url, "m", roots), /not a place for models|expected a folder/, url);
  }
  assert.throws(() => modelAt("/proc/self", "m", { repositories: [], sagemaker: "/x" }), /not a place for models/);
});
