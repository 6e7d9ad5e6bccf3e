import assert from "node:assert/strict";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fakeConfig } from "../../../../tests/fakes/model-config.ts";
import { fakeRequest, int32 } from "../../../../tests/fakes/requests.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../observe/log.ts";
import { loadBatchStrategy } from "./load-batch-strategy.ts";

const lines: string[] = [];
const log = new ServerLog(DEFAULT_LOG_SETTINGS, { sink: { out: () => undefined, err: (line) => lines.push(line) } });

async function load(files: Readonly<Record<string, string>>, path?: string) {
  const modelFolder = await mkdtemp(join(tmpdir(), "nereid-strategy-"));
  for (const [name, text] of Object.entries(files)) await writeFile(join(modelFolder, name), text);
  const parameters = path === undefined ? {} : { TRITON_BATCH_STRATEGY_PATH: { string_value: path } };
  const config = fakeConfig({ parameters });
  return loadBatchStrategy({ config, modelFolder, versionFolder: join(modelFolder, "1"), log });
}

const ROWS = `
export const startBatch = (context: { name: string }) => ({ rows: 0, name: context.name });
export function includeRequest(batch: { rows: number }, request: { batchSize: number }): boolean {
  batch.rows += request.batchSize;
  return batch.rows <= 3;
}
`;

test("`loadBatchStrategy()` finds none, the usual file, or the one that is named", async () => {
  assert.equal(await load({}), undefined);
  for (const [file, path] of [
    ["batchstrategy.ts", undefined],
    ["mine.ts", "mine.ts"],
    ["mine.ts", "$$TRITON_MODEL_DIRECTORY/mine.ts"],
  ] as const) {
    const strategy = await load({ [file]: ROWS }, path);
    const judge = strategy?.startBatch();
    assert.deepEqual(
      [2, 1, 1].map((rows) => judge?.(fakeRequest([int32("X", [rows], [1])]), rows)),
      [true, true, false],
    );
  }
});

test("each batch begins anew, and what a strategy throws is logged and refuses", async () => {
  const strategy = await load({
    "batchstrategy.js": "export const includeRequest = () => { throw new Error('oops'); };",
  });
  assert.equal(strategy?.startBatch()(fakeRequest([]), 1), false);
  assert.match(lines.join(""), /batch strategy of model '.*' failed: Error: oops/);
});

test("`loadBatchStrategy()` refuses libraries, missing files and files without the function", async () => {
  await assert.rejects(load({}, "/opt/batchstrategy.so"), /libraries in C\+\+ are not for Node/);
  await assert.rejects(load({}, "missing.ts"), /must name a file that ends in \.ts or \.js, got 'missing\.ts'/);
  await assert.rejects(load({ "batchstrategy.ts": "export const x = 1;" }), /expected an export 'includeRequest'/);
  await assert.rejects(load({ "batchstrategy.ts": "export const x: = 1;" }), /batchstrategy\.ts:1:/);
});
