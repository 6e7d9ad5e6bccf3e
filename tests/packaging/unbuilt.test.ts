import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { ROOT } from "./installed-packages.ts";

for (const name of ["nereid", "tritonserver"]) {
  test(`${name} says what to run in a checkout that was not built yet`, () => {
    const checkout = realpathSync(mkdtempSync(join(tmpdir(), "nereid-unbuilt-")));
    try {
      cpSync(join(ROOT, "server", "bin"), join(checkout, "server", "bin"), { recursive: true });
      const program = join(checkout, "server", "bin", `${name}.cjs`);
      const { status, stderr } = spawnSync(process.execPath, [program, "--help"], { encoding: "utf8" });
      assert.equal(stderr, `${name}: not built yet: run npm run build in ${checkout}\n`);
      assert.equal(status, 1);
    } finally {
      rmSync(checkout, { recursive: true, force: true });
    }
  });
}
