import assert from "node:assert/strict";
import { cpSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { diagnose } from "../check/doctor.ts";
import { copyTemplates, type InitOptions, type InitResult, initRepository } from "./init-repo.ts";
import { TEMPLATE_MODELS } from "./template-folder.ts";
import { TEXT_MODEL as MODEL, reporter, signal, temporaryRepository } from "./temporary-repository.test-support.ts";

const bed = temporaryRepository();

const init = ({ modelDir = MODEL, ...changes }: Partial<InitOptions> = {}): Promise<InitResult> =>
  initRepository(bed.options(modelDir, changes));

test("initRepository() writes five models that would load, with no placeholder left", async () => {
  const { models, findings } = await init({ others: new Map([["max_beam_width", "4"]]) });
  assert.deepEqual(readdirSync(bed.repository).sort(), [...TEMPLATE_MODELS].sort());
  assert.deepEqual([models, findings.filter(({ severity }) => severity !== "note")], [TEMPLATE_MODELS, []]);
  assert.deepEqual(readdirSync(bed.root), ["repo"]);
  assert.equal(
    TEMPLATE_MODELS.some((model) => bed.config(model).includes("${")),
    false,
  );
  assert.match(bed.config("tensorrt_llm"), /max_batch_size: 8\n/);
  assert.match(bed.config("tensorrt_llm"), /key: "max_beam_width"\s+value: \{ string_value: "4" \}/);
  assert.ok(bed.config("preprocessing").includes(`string_value: "${MODEL}"`));
});

test("initRepository() with copiesModel makes a repository that can be moved", async () => {
  await init({ copiesModel: true });
  const elsewhere = join(bed.root, "elsewhere");
  renameSync(bed.repository, elsewhere);
  const { findings, models } = await diagnose([elsewhere], reporter, signal);
  assert.deepEqual(
    findings.filter(({ severity }) => severity !== "note"),
    [],
  );
  assert.equal(models.length, 5);
  assert.ok(readdirSync(join(elsewhere, "tensorrt_llm", "1")).includes("model.safetensors.index.json"));
});

test("initRepository() adds its models to a repository and leaves others alone", async () => {
  mkdirSync(join(bed.repository, "other", "1"), { recursive: true });
  writeFileSync(join(bed.repository, "other", "config.pbtxt"), 'backend: "identity"');
  await init();
  assert.deepEqual(readdirSync(bed.repository).sort(), [...TEMPLATE_MODELS, "other"].sort());
  await assert.rejects(init(), /has models of these names already: ensemble, postprocessing,/);
  writeFileSync(join(bed.repository, "ensemble", "old"), "");
  await init({ replaces: true, maxBatchSize: 4 });
  assert.match(bed.config("ensemble"), /max_batch_size: 4\n/);
  assert.equal(existsSync(join(bed.repository, "ensemble", "old")), false);
  assert.ok(existsSync(join(bed.repository, "other", "config.pbtxt")));
});

const REFUSED: readonly [string, (root: string) => Partial<InitOptions>, RegExp][] = [
  ["a folder that is not there", (at) => ({ modelDir: join(at, "none") }), /expected a folder with a model/],
  ["a model of an unknown family", (at) => ({ modelDir: brokenModel(at) }), /architectures/],
  ["a model without a tokenizer", (at) => ({ modelDir: withoutTokenizer(at) }), /There is no tokenizer\.json in/],
  [
    "a placeholder that does not exist",
    () => ({ others: new Map([["max_beam", "4"]]) }),
    /no placeholders called max_beam/,
  ],
  [
    "values that would not load",
    () => ({ others: new Map([["logits_datatype", "TYPE_FP31"]]) }),
    /repo\/.*config\.pbtxt:\d+: error: .*TYPE_FP31/,
  ],
];

function copied(at: string): string {
  const model = join(at, "model");
  cpSync(MODEL, model, { recursive: true });
  return model;
}

function brokenModel(at: string): string {
  const model = copied(at);
  writeFileSync(join(model, "config.json"), '{"architectures":["UnheardOf"]}');
  return model;
}

function withoutTokenizer(at: string): string {
  const model = copied(at);
  rmSync(join(model, "tokenizer.json"));
  return model;
}

for (const [title, changes, expected] of REFUSED) {
  test(`initRepository() refuses ${title} and writes nothing`, async () => {
    const options = changes(bed.root);
    const before = readdirSync(bed.root);
    await assert.rejects(init(options), expected);
    assert.deepEqual(readdirSync(bed.root), before);
  });
}

test("initRepository() fills a folder that is there and empty from inside, as a mounted disk needs it", async () => {
  mkdirSync(bed.repository);
  const { ino } = statSync(bed.repository);
  await init();
  assert.equal(statSync(bed.repository).ino, ino);
  assert.deepEqual(readdirSync(bed.repository).sort(), [...TEMPLATE_MODELS].sort());
});

test("copyTemplates() writes the five models unfilled, and not over others", async () => {
  await copyTemplates(bed.repository, false);
  assert.deepEqual(readdirSync(bed.repository).sort(), [...TEMPLATE_MODELS].sort());
  assert.match(bed.config("preprocessing"), /\$\{tokenizer_dir\}/);
  await assert.rejects(copyTemplates(bed.repository, false), /has models of these names already/);
});

test("initRepository() takes a tokenizer from another folder", async () => {
  await init({ modelDir: withoutTokenizer(bed.root), tokenizerDir: MODEL });
  assert.ok(bed.config("postprocessing").includes(`string_value: "${MODEL}"`));
});
