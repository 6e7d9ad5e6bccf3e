/**
 * That parity means something: with one field of config.json changed, a model no longer gives what was recorded; with a
 * field in its older spelling, it does.
 */
import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { append, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";

const MODELS = fileURLToPath(new URL("models/", import.meta.url));
/** Ten times what parity.test.ts allows. */
const CLEARLY_OFF = 1e-3;
const directory = await mkdtemp(join(tmpdir(), "switches-"));
after(() => rm(directory, { recursive: true }));

/** How far the logits after the prompt are from those recorded. */
async function differenceOf(model: string, changes: object): Promise<number> {
  const copy = await mkdtemp(join(directory, "model-"));
  await cp(join(MODELS, model), copy, { recursive: true });
  const config = JSON.parse(await readFile(join(copy, "config.json"), "utf8")) as object;
  await writeFile(join(copy, "config.json"), JSON.stringify({ ...config, ...changes }));
  const text = await readFile(join(copy, "expected.json"), "utf8");
  const expected = JSON.parse(text) as { readonly prompt: number[]; readonly logits: number[][] };
  const runner = await createDecoderRunner({ modelDir: copy, numBlocks: 32, blockSize: 4, numThreads: 1 });
  const sequence = new TestSequence(contiguousBlocks(0, 32));
  const [actual = new Float32Array()] = await append(runner, [{ sequence, tokens: expected.prompt }]);
  await runner.close();
  return maxDifference(actual, expected.logits[0] ?? []);
}

const LINEAR = { rope_type: "linear", factor: 8, rope_theta: 1e6 };
const MATTERS: readonly (readonly [model: string, changes: object])[] = [
  ["mistral", { sliding_window: 17 }],
  ["gemma-2", { attn_logit_softcapping: 3 }],
  ["gemma-2", { final_logit_softcapping: 3 }],
  ["gemma-2", { query_pre_attn_scalar: 16 }],
  ["gemma-3", { rope_parameters: { full_attention: { rope_theta: 1e6 }, sliding_attention: { rope_theta: 1e4 } } }],
  ["gemma-3", { rope_parameters: { full_attention: LINEAR, sliding_attention: { rope_theta: 1e6 } } }],
  ["qwen2", { layer_types: ["sliding_attention", "sliding_attention", "sliding_attention"] }],
  ["qwen2.5-yarn", { rope_parameters: { rope_theta: 1e6 } }],
  ["qwen2-moe", { norm_topk_prob: true }],
  ["qwen2-moe", { num_experts_per_tok: 2 }],
  ["qwen3-moe", { norm_topk_prob: false }],
  ["phi-3", { sliding_window: 21 }],
  ["phi-3-longrope-long", { rope_parameters: { rope_theta: 1e4 } }],
  ["phi-4-mini", { max_position_embeddings: 140 }],
  ["llama-3.2", { rope_parameters: { rope_theta: 5e5 } }],
  ["starcoder2", { sliding_window: 15 }],
];

for (const [model, changes] of MATTERS) {
  test(`run() gives other logits for ${model} with ${JSON.stringify(changes)}`, async () => {
    const off = await differenceOf(model, changes);
    assert.ok(off > CLEARLY_OFF, `logits are off by ${off} only`);
  });
}

const OLDER: readonly (readonly [model: string, changes: object])[] = [
  ["gemma-2", { layer_types: null }],
  ["qwen2", { layer_types: null }],
  [
    "gemma-3",
    {
      layer_types: null,
      sliding_window_pattern: 3,
      rope_parameters: null,
      rope_theta: 1e6,
      rope_local_base_freq: 1e4,
      rope_scaling: { rope_type: "linear", factor: 8 },
    },
  ],
  ["phi-2", { rope_parameters: null, rope_theta: 1e4, partial_rotary_factor: 0.5 }],
  [
    "qwen2.5-yarn",
    {
      rope_parameters: null,
      rope_theta: 1e6,
      rope_scaling: { type: "yarn", factor: 4, original_max_position_embeddings: 32 },
    },
  ],
];

for (const [model, changes] of OLDER) {
  test(`run() gives the recorded logits of ${model} with ${JSON.stringify(changes)}`, async () => {
    const off = await differenceOf(model, changes);
    assert.ok(off < CLEARLY_OFF / 10, `logits are off by ${off}`);
  });
}

test("createDecoderRunner() turns as for short sequences when its cache holds no longer ones", async () => {
  const modelDir = join(MODELS, "phi-3-longrope-short");
  const text = await readFile(join(modelDir, "expected.json"), "utf8");
  const expected = JSON.parse(text) as { readonly prompt: number[]; readonly logits: number[][] };
  const runner = await createDecoderRunner({ modelDir, numBlocks: 16, blockSize: 4, numThreads: 1 });
  const [actual = []] = await append(runner, [
    { sequence: new TestSequence(contiguousBlocks(0, 16)), tokens: expected.prompt },
  ]);
  await runner.close();
  assert.ok(maxDifference(actual, expected.logits[0] ?? []) < CLEARLY_OFF / 10);
});
