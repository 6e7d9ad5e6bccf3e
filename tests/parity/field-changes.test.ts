/**
 * Every field of config.json that is honoured changes something: each recorded model with one field changed is refused, gives
 * other logits, or is in the list of neutral fields. A field that nobody knows is refused when its name says that it matters.
 */
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { append, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { parseDecoderConfig } from "../../server/src/models/config/parse-decoder-config.ts";
import { testSize } from "../support/long-tests.ts";
import { type FieldChange, fieldChanges, filesOf, recordedModels } from "./field-changes.ts";
import { neutralRow } from "./neutral-fields.ts";

const NUM_BLOCKS = 32;
/** Every change of about 2,000, or each fortieth. */
const STRIDE = testSize(40, 1);
const UNKNOWN = { quantum_attention_scale: 2.5, expert_gate_pattern: [1, 2], residual_norm_kind: "cubic" };
const WITHOUT_EFFECT = { training_note: "run 7", initializer_spread: 0.5, use_cache_twice: true };

const directory = mkdtempSync(join(tmpdir(), "fields-"));
after(() => rmSync(directory, { recursive: true }));

/** The logits after the recorded prompt, by the weights of `folder` and another config.json. */
async function logitsOf(folder: string, config: object): Promise<Float32Array> {
  const copy = mkdtempSync(join(directory, "model-"));
  for (const file of readdirSync(folder)) {
    if (file !== "config.json") symlinkSync(join(folder, file), join(copy, file));
  }
  writeFileSync(join(copy, "config.json"), JSON.stringify(config));
  const { prompt } = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as { readonly prompt: number[] };
  const runner = await createDecoderRunner({ modelDir: copy, numBlocks: NUM_BLOCKS, blockSize: 4, numThreads: 1 });
  try {
    const sequence = new TestSequence(contiguousBlocks(0, NUM_BLOCKS));
    const [logits = new Float32Array()] = await append(runner, [{ sequence, tokens: prompt }]);
    return Float32Array.from(logits);
  } finally {
    await runner.close();
    rmSync(copy, { recursive: true });
  }
}

const unchanged = new Map(recordedModels().map((each) => [each.model, each.config]));
const logitsBefore = new Map<string, Promise<Float32Array>>();

/** "refused", or how far the logits are from those of the unchanged model. */
async function effectOf({ model, folder, config }: FieldChange): Promise<number | "refused"> {
  const before = logitsBefore.get(model) ?? logitsOf(folder, unchanged.get(model) ?? {});
  logitsBefore.set(model, before);
  const expected = await before;
  try {
    return maxDifference(await logitsOf(folder, config), expected);
  } catch {
    return "refused";
  }
}

const changes = fieldChanges();

test("the recorded models have fields to change", () => assert.ok(changes.length > 2000, String(changes.length)));

for (const change of changes.filter((_, i) => i % STRIDE === 0)) {
  const { model, field, from, to } = change;
  const neutral = neutralRow(change);
  const text = `${model}: ${field} ${JSON.stringify(to)} in place of ${JSON.stringify(from)}`;
  test(`${text} ${neutral === undefined ? "matters" : `does not matter: ${neutral.reason}`}`, async () => {
    const effect = await effectOf(change);
    const isFelt = effect === "refused" || effect > 0;
    assert.ok(isFelt || neutral !== undefined, "the logits are the same, and neutral-fields.ts has no reason");
    assert.ok(!isFelt || neutral?.models === undefined, `neutral-fields.ts has a reason, but the effect is ${effect}`);
  });
}

for (const { model, config } of recordedModels()) {
  test(`${model} refuses fields that nobody knows, unless they are of training`, () => {
    assert.doesNotThrow(() => parseDecoderConfig(filesOf({ ...config, ...WITHOUT_EFFECT })));
    for (const [field, value] of Object.entries(UNKNOWN)) {
      const place = ["text_config", "llm_config", "language_config"].find((name) => typeof config[name] === "object");
      const section = place === undefined ? undefined : { ...(config[place] as object), [field]: value };
      const changed = place === undefined ? { ...config, [field]: value } : { ...config, [place]: section };
      assert.throws(() => parseDecoderConfig(filesOf(changed)), new RegExp(`config\\.json.*${field}`));
    }
  });
}
