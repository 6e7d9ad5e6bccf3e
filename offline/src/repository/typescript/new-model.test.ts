import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { stripTypes } from "@nereid/server/backend/typescript/worker/strip-types";
import { examineModel } from "../check/examined-model.ts";
import { MODEL_KINDS, newModel } from "./new-model.ts";

for (const kind of MODEL_KINDS) {
  test(`newModel() writes a model of kind ${kind} that the server would take`, async (context) => {
    const repository = await mkdtemp(join(tmpdir(), "nereid-new-"));
    context.after(() => rm(repository, { recursive: true }));
    const files = await newModel(join(repository, "m"), kind);
    assert.deepEqual(
      files.map((file) => file.slice(repository.length)),
      ["/m/config.pbtxt", "/m/1/model.ts", "/m/model-types.d.ts"],
    );
    const { config, findings } = await examineModel(repository, "m");
    assert.ok(config !== undefined);
    assert.deepEqual(findings, []);
    const code = await readFile(join(repository, "m/1/model.ts"), "utf8");
    assert.match(await stripTypes(code, "model.ts"), /export const execute/);
  });
}

test("newModel() leaves a model that is there alone unless it may replace it", async (context) => {
  const repository = await mkdtemp(join(tmpdir(), "nereid-new-"));
  context.after(() => rm(repository, { recursive: true }));
  const folder = join(repository, "m");
  await newModel(folder, "plain");
  await assert.rejects(newModel(folder, "stream"), { message: /is there already/ });
  assert.match(await readFile(join(folder, "config.pbtxt"), "utf8"), /UPPER/);
  await newModel(folder, "stream", true);
  assert.match(await readFile(join(folder, "config.pbtxt"), "utf8"), /decoupled: true/);
});

for (const name of ["a b", "..", "x\n"]) {
  test(`newModel() refuses the name ${JSON.stringify(name)}`, async () => {
    await assert.rejects(newModel(join(tmpdir(), "nereid-new-none", name), "plain"), {
      message: /name of a model|there already/,
    });
  });
}
