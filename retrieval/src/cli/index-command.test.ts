import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { runCli } from "@nereid/server/cli/cli.test-support";

const root = mkdtempSync(join(tmpdir(), "nereid-index-"));
after(() => rmSync(root, { recursive: true }));
const input = join(root, "records.jsonl");
const repository = join(root, "repo");
const config = join(repository, "wrong", "config.pbtxt");
writeFileSync(input, '{"id":"1","text":"a"}\n');
mkdirSync(join(repository, "wrong"), { recursive: true });
writeFileSync(config, 'backend: "onnxruntime"\nmax_batch_size: "x"\n');

const FAULTS: readonly (readonly [model: string, repository: string, message: string])[] = [
  ["nosuch", repository, "failed to poll model 'nosuch': model not found in any model repository."],
  ["wrong", repository, `${config}:2:17: field 'max_batch_size' expects an integer, got the text "x"`],
  ["nosuch", join(root, "none"), `failed to stat file ${join(root, "none")}`],
];

for (const [model, folder, message] of FAULTS) {
  test(`nereid index says once why it does not start: ${message.replace(root, "")}`, async () => {
    const store = `memory:${join(root, "store")}`;
    const argv = ["index", "--model", model, "--model_repository", folder, "--input", input, "--store", store];
    const { code, stdout, stderr } = await runCli(argv);
    assert.deepEqual([code, stdout, stderr], [1, "", `nereid index: ${message}\n`]);
  });
}
