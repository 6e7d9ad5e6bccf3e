import assert from "node:assert/strict";
import { copyFileSync, cpSync, existsSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { diagnose } from "../check/doctor.ts";
import type { InitOptions, InitResult } from "./init-repo.ts";
import { initVisionRepository } from "./init-vision.ts";
import { reporter, signal, TEXT_MODEL, temporaryRepository } from "./temporary-repository.test-support.ts";
import { VISION_MODELS } from "./vision-names.ts";

const MODELS = fileURLToPath(new URL("../../../../tests/vision/", import.meta.url));
const bed = temporaryRepository();

/** A model of tests/vision with what a folder of the hub has beside it. */
function modelOf(name: string): string {
  const folder = join(bed.root, name);
  cpSync(join(MODELS, name), folder, { recursive: true });
  for (const file of ["tokenizer.json", "preprocessor_config.json"]) {
    if (!existsSync(join(folder, file))) copyFileSync(join(MODELS, "llava-next", file), join(folder, file));
  }
  return folder;
}

const init = (modelDir: string, changes: Partial<InitOptions> = {}): Promise<InitResult> =>
  initVisionRepository(bed.options(modelDir, changes));

for (const { name, encoder, prompt, llm } of [
  {
    name: "llava",
    encoder: /max_batch_size: 8.*"pixel_values" data_type: TYPE_FP32 dims: \[ 3, 12, 12 \].*dims: \[ 9, 64 \]/s,
    prompt: /"VISUAL_TOKENS" data_type: TYPE_FP32 dims: \[ -1, -1, 64 \].*"USER: \{images\}\\n\{text\} ASSISTANT:"/s,
    llm: /decoupled: true/,
  },
  {
    name: "llava-next",
    encoder: /dims: \[ -1, 3, 12, 12 \].*"visual_order".*dims: \[ -1, 32 \]/s,
    prompt: /dims: \[ -1, 32 \].*"VISUAL_LENGTHS"/s,
    llm: /decoupled: true/,
  },
  {
    name: "qwen2.5-vl",
    encoder: /dims: \[ -1, 96 \].*"patch_positions".*dims: \[ -1, 32 \]/s,
    prompt: /"IMAGE_GRID_THW".*"MROPE_POSITION_IDS".*"<\|vision_start\|><\|image_pad\|><\|vision_end\|>"/s,
    llm: /"mrope_position_ids"/,
  },
]) {
  test(`initVisionRepository() writes six models that would load for ${name}, its vision encoder among them`, async () => {
    const { models, findings } = await init(modelOf(name));
    assert.deepEqual(readdirSync(bed.repository).sort(), [...VISION_MODELS].sort());
    assert.deepEqual([models, findings.filter(({ severity }) => severity !== "note")], [VISION_MODELS, []]);
    assert.ok(existsSync(join(bed.repository, "vision_encoder/1/model.onnx")));
    assert.match(bed.config("vision_encoder"), encoder);
    assert.match(bed.config("vlm_preprocessing"), prompt);
    assert.match(bed.config("vision_llm"), llm);
    assert.match(bed.config("vlm"), /"stream" data_type: TYPE_BOOL/);
  });
}

test("initVisionRepository() with copiesModel makes a repository that can be moved", async () => {
  const model = modelOf("qwen2-vl");
  await init(model, { copiesModel: true, isDecoupled: false });
  assert.doesNotMatch(`${bed.config("vision_llm")}${bed.config("vlm")}`, /decoupled|stream/);
  const elsewhere = join(bed.root, "elsewhere");
  renameSync(bed.repository, elsewhere);
  rmSync(model, { recursive: true });
  const { findings, models } = await diagnose([elsewhere], reporter, signal);
  assert.deepEqual(
    findings.filter(({ severity }) => severity !== "note"),
    [],
  );
  assert.equal(models.length, VISION_MODELS.length);
});

test("initVisionRepository() refuses models that see nothing, and leaves nothing behind", async () => {
  await assert.rejects(init(TEXT_MODEL), /model_type: expected llava, llava_next, qwen2_vl, qwen2_5_vl, got "llama"/);
  await assert.rejects(init(join(bed.root, "nowhere")), /config.json: expected a file/);
  await assert.rejects(init(modelOf("qwen2-vl"), { others: new Map([["a", "b"]]) }), /--set is for the templates/);
  assert.equal(existsSync(bed.repository), false);
});

test("initVisionRepository() replaces models of the same names only when told to", async () => {
  const model = modelOf("llava-next");
  await init(model);
  await assert.rejects(init(model), /has models of these names already: .*vlm/);
  await init(model, { replaces: true });
  assert.equal(readdirSync(bed.repository).length, VISION_MODELS.length);
});
