import assert from "node:assert/strict";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { copyTemplates } from "./init-repo.ts";
import { migrateRepository } from "./migrate-repo.ts";
import { TEMPLATE_MODELS } from "./template-folder.ts";
import { TEXT_MODEL as MODEL, temporaryRepository } from "./temporary-repository.test-support.ts";

const bed = temporaryRepository();

/** A repository as TensorRT-LLM's users have it: Python models with their programs, and an engine. */
async function oldRepository(): Promise<string> {
  const folder = join(bed.root, "old");
  await copyTemplates(folder, false);
  for (const name of ["preprocessing", "postprocessing", "tensorrt_llm_bls"]) {
    const path = join(folder, name, "config.pbtxt");
    writeFileSync(path, readFileSync(path, "utf8").replace(/^backend: ".*"$/m, 'backend: "python"'));
    writeFileSync(join(folder, name, "1", "model.py"), "import torch\n");
  }
  writeFileSync(join(folder, "tensorrt_llm", "1", "rank0.engine"), "code of one GPU");
  return folder;
}

test("migrateRepository() copies a repository with another model, without its engine, and leaves it alone", async () => {
  const old = await oldRepository();
  cpSync(old, join(bed.root, "before"), { recursive: true });
  mkdirSync(join(old, "notes"));
  const { models } = await migrateRepository(bed.options(MODEL), old);
  assert.deepEqual([...models].sort(), [...TEMPLATE_MODELS].sort());
  assert.equal(models.at(-1), "ensemble");
  assert.match(bed.config("preprocessing"), /^backend: "tokenizer"$/m);
  assert.match(bed.config("tensorrt_llm_bls"), /^backend: "bls"$/m);
  assert.ok(bed.config("tensorrt_llm").includes(`string_value: "${MODEL}"`));
  assert.ok(existsSync(join(bed.repository, "preprocessing", "1", "model.py")));
  assert.deepEqual(readdirSync(join(bed.repository, "tensorrt_llm", "1")), []);
  assert.ok(existsSync(join(old, "tensorrt_llm", "1", "rank0.engine")));
  for (const name of TEMPLATE_MODELS) {
    const path = join(name, "config.pbtxt");
    assert.equal(readFileSync(join(old, path), "utf8"), readFileSync(join(bed.root, "before", path), "utf8"));
  }
});

test("migrateRepository() refuses what is no such repository, and one whose model is missing", async () => {
  const old = await oldRepository();
  rmSync(join(old, "tensorrt_llm"), { recursive: true });
  await assert.rejects(migrateRepository(bed.options(MODEL), old), /No model of .* has the parameter 'gpt_model_path'/);
  await assert.rejects(migrateRepository(bed.options(MODEL), join(bed.root, "none")), /Cannot read the repository/);
  assert.equal(existsSync(bed.repository), false);
});
