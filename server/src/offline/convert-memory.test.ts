import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { promisify } from "node:util";
import { safetensorsHeader, type TensorPlan } from "./safetensors-writer.ts";

const HIDDEN = 1024;
const MLP = 4096;
const VOCAB = 128_256;
const LAYERS = 10;
const KV_WIDTH = 256;
const LARGEST_BYTES: number = VOCAB * HIDDEN * 2;
/** What is promised: 1.2 times the largest tensor and 200 MB. */
const ALLOWED_BYTES: number = 1.2 * LARGEST_BYTES + 200e6;

const CONFIG = {
  architectures: ["LlamaForCausalLM"],
  vocab_size: VOCAB,
  hidden_size: HIDDEN,
  intermediate_size: MLP,
  num_hidden_layers: LAYERS,
  num_attention_heads: 16,
  num_key_value_heads: 4,
  max_position_embeddings: 2048,
  tie_word_embeddings: true,
  torch_dtype: "bfloat16",
};

function tensors(): TensorPlan[] {
  const plan = (name: string, ...shape: number[]): TensorPlan => ({ name, dtype: "BF16", shape });
  const layers = Array.from({ length: LAYERS }, (_, i) => [
    plan(`model.layers.${i}.input_layernorm.weight`, HIDDEN),
    plan(`model.layers.${i}.post_attention_layernorm.weight`, HIDDEN),
    plan(`model.layers.${i}.self_attn.q_proj.weight`, HIDDEN, HIDDEN),
    plan(`model.layers.${i}.self_attn.k_proj.weight`, KV_WIDTH, HIDDEN),
    plan(`model.layers.${i}.self_attn.v_proj.weight`, KV_WIDTH, HIDDEN),
    plan(`model.layers.${i}.self_attn.o_proj.weight`, HIDDEN, HIDDEN),
    plan(`model.layers.${i}.mlp.gate_proj.weight`, MLP, HIDDEN),
    plan(`model.layers.${i}.mlp.up_proj.weight`, MLP, HIDDEN),
    plan(`model.layers.${i}.mlp.down_proj.weight`, HIDDEN, MLP),
  ]);
  return [plan("model.embed_tokens.weight", VOCAB, HIDDEN), ...layers.flat(), plan("model.norm.weight", HIDDEN)];
}

/** Zeros that take no room on the disk. */
async function writeModel(directory: string): Promise<void> {
  const plans = tensors();
  const header = safetensorsHeader(plans);
  const numBytes = plans.reduce((sum, { shape }) => sum + 2 * shape.reduce((a, b) => a * b, 1), 0);
  const file = await open(join(directory, "model.safetensors"), "w");
  await file.write(header);
  await file.truncate(header.byteLength + numBytes);
  await file.close();
  await writeFile(join(directory, "config.json"), JSON.stringify(CONFIG));
}

const COMMAND = new URL("../cli/convert-checkpoint.ts", import.meta.url).href;
const PROGRAM = `import { convertCheckpointCommand as run } from ${JSON.stringify(COMMAND)};
await run(process.argv.slice(1)); process.stdout.write(String(process.resourceUsage().maxRSS * 1024));`;

test("convertCheckpoint() of 567 MB needs little more memory than its largest tensor", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "convert-memory-"));
  try {
    await writeModel(directory);
    const flags = ["--model_dir", directory, "--output_dir", join(directory, "out"), "--dtype", "bfloat16", "--quiet"];
    const node = [
      "--conditions=nereid-source",
      "--import",
      "tsx",
      "--input-type=module",
      "-e",
      PROGRAM,
      "--",
      ...flags,
    ];
    const { stdout } = await promisify(execFile)(process.execPath, node);
    const peakBytes = Number(stdout.split("\n").at(-1));
    t.diagnostic(`peak ${Math.round(peakBytes / 1e6)} MB, largest tensor ${Math.round(LARGEST_BYTES / 1e6)} MB`);
    assert.ok(peakBytes > 0 && peakBytes < ALLOWED_BYTES, `peak of ${peakBytes} bytes`);
  } finally {
    await rm(directory, { recursive: true });
  }
});
