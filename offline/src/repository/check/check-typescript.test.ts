import assert from "node:assert/strict";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { checkTypescript } from "./check-typescript.ts";
import { examineModel } from "./examined-model.ts";

async function findings(files: Readonly<Record<string, string>>, rest = "") {
  const repository = await mkdtemp(join(tmpdir(), "nereid-check-"));
  await mkdir(join(repository, "m/1"), { recursive: true });
  const tensor = (name: string): string => `[{ name: "${name}" data_type: TYPE_INT32 dims: [1] }]`;
  const config = `backend: "typescript" input ${tensor("X")} output ${tensor("Y")} ${rest}`;
  await writeFile(join(repository, "m/config.pbtxt"), config);
  for (const [name, text] of Object.entries(files)) await writeFile(join(repository, "m/1", name), text);
  const model = await examineModel(repository, "m");
  assert.ok(model.config !== undefined);
  await checkTypescript(model, model.config, join(repository, "m/1"));
  return model.findings.map(({ problem, line }) => ({ problem: problem.replaceAll(repository, ""), line }));
}

test("`checkTypescript()` finds nothing wrong with a model that can be read", async () => {
  assert.deepEqual(await findings({ "model.ts": "export const execute = (x: unknown): object => ({ Y: 1 });" }), []);
  assert.deepEqual(await findings({ "model.mjs": "export const execute = () => ({ Y: 1 });" }), []);
});

test("`checkTypescript()` names the line of a fault, a missing file, and a wrong setting", async () => {
  const [broken] = await findings({ "model.ts": "export const a = 1;\nexport const b: = 2;" });
  assert.equal(broken?.line, 2);
  const [missing] = await findings({});
  assert.match(missing?.problem ?? "", /has no model\.ts, model\.mts, model\.js, model\.mjs in/);
  const parameter = 'parameters { key: "HANG_TIMEOUT_SECONDS" value: { string_value: "soon" } }';
  const [wrong] = await findings({ "model.ts": "export const execute = 1;" }, parameter);
  assert.match(wrong?.problem ?? "", /hang-timeout-seconds .* must be a number above 0, got 'soon'/);
});
