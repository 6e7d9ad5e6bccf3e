/**
 * Recorded models as GGUF files: our engine and libllama both give the logits that transformers computed. The first says
 * that names and fields are mapped, the second that the files are as llama.cpp's converter writes them.
 */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import { createLlamaRunner } from "../../server/src/engine/llama/create-runner.ts";
import type { StepRunner } from "../../server/src/engine/step-runner.ts";
import { append, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { ARRAY, F32, type GgufField, STRING, U32 } from "../../server/src/formats/gguf/gguf-writer.test-support.ts";
import { type GgufOptions, recordedAsGguf } from "./to-gguf.ts";

const PARITY = fileURLToPath(new URL("./", import.meta.url));
const directory = await mkdtemp(join(tmpdir(), "parity-gguf-"));
after(() => rm(directory, { recursive: true }));

const OUR_BOUND = 1e-4;
/** libllama rounds more: tables of activations, keys in half precision. */
const LLAMA_BOUND = 5e-3;

const BOOL = 7;
/** A value of `expert_gating_func`. */
const SIGMOID = 2;

interface Case {
  readonly model: string;
  readonly architecture: string;
  readonly keys?: readonly GgufField[];
  readonly options?: GgufOptions;
  /** GGUF cannot say all of the recorded configuration: the engines are compared with each other. */
  readonly isOther?: boolean;
}

const GRANITE_KEYS: readonly GgufField[] = [
  ["attention.scale", F32, 0.2],
  ["embedding_scale", F32, 6],
  ["residual_scale", F32, 0.4],
  ["logit_scale", F32, 3],
];

const CASES: Case[] = [
  { model: "models/llama-2", architecture: "llama" },
  {
    model: "models/mixtral",
    architecture: "llama",
    keys: [
      ["expert_count", U32, 4],
      ["expert_used_count", U32, 2],
    ],
  },
  { model: "models/qwen3", architecture: "qwen3" },
  {
    model: "models/qwen2-moe",
    architecture: "qwen2moe",
    keys: [
      ["expert_count", U32, 6],
      ["expert_used_count", U32, 3],
      ["expert_feed_forward_length", U32, 32],
      ["expert_shared_feed_forward_length", U32, 48],
    ],
  },
  { model: "models/gemma", architecture: "gemma" },
  {
    model: "models/gemma-2",
    architecture: "gemma2",
    keys: [
      ["attn_logit_softcapping", F32, 2],
      ["final_logit_softcapping", F32, 1.5],
      ["attention.sliding_window", U32, 16],
    ],
    isOther: true,
  },
  {
    model: "models/gemma-3",
    architecture: "gemma3",
    keys: [
      ["attention.sliding_window", U32, 16],
      ["rope.freq_base", F32, 1e6],
    ],
    isOther: true,
  },
  {
    model: "architectures/command-r7b",
    architecture: "cohere2",
    keys: [
      ["attention.sliding_window", U32, 8],
      ["logit_scale", F32, 0.5],
    ],
    isOther: true,
  },
  { model: "architectures/smollm3", architecture: "smollm3", isOther: true },
  { model: "architectures/exaone-4", architecture: "exaone4", isOther: true },
  { model: "architectures/granite", architecture: "granite", keys: GRANITE_KEYS },
  { model: "architectures/olmo-2", architecture: "olmo2" },
  { model: "architectures/glm-4-0414", architecture: "glm4" },
  { model: "architectures/cohere", architecture: "command-r", keys: [["logit_scale", F32, 0.5]] },
  { model: "architectures/nemotron", architecture: "nemotron" },
  {
    model: "architectures/arcee",
    architecture: "arcee",
    keys: [
      ["rope.scaling.type", STRING, "yarn"],
      ["rope.scaling.factor", F32, 4],
      ["rope.scaling.original_context_length", U32, 16],
    ],
  },
  { model: "architectures/seed-oss", architecture: "seed_oss" },
  { model: "architectures/ernie-4.5", architecture: "ernie4_5" },
];

/** Routing as DeepSeek-V3 has it. */
const routing = (numDense: number, isNormed: boolean, groups: readonly number[] = []): readonly GgufField[] => [
  ["expert_count", U32, 8],
  ["expert_used_count", U32, 3],
  ["expert_shared_count", U32, 1],
  ["expert_feed_forward_length", U32, 16],
  ["leading_dense_block_count", U32, numDense],
  ["expert_weights_scale", F32, 1.5],
  ["expert_weights_norm", BOOL, Uint8Array.of(isNormed ? 1 : 0)],
  ["expert_gating_func", U32, SIGMOID],
  ...groups.map((count, i): GgufField => [["expert_group_count", "expert_group_used_count"][i] ?? "", U32, count]),
];

const GPT_OSS_KEYS: readonly GgufField[] = [
  ["expert_count", U32, 4],
  ["expert_used_count", U32, 2],
  ["expert_feed_forward_length", U32, 40],
  ["attention.sliding_window", U32, 8],
];

CASES.push(
  { model: "architectures/glm-4-moe", architecture: "glm4moe", keys: routing(1, true) },
  {
    model: "architectures/glm-4-moe-2",
    architecture: "glm4moe",
    keys: [...routing(0, false, [4, 2]), ["expert_shared_count", U32, 2]],
  },
  {
    model: "architectures/dots1",
    architecture: "dots1",
    keys: routing(1, false, [2, 1]),
    options: { hasEqualHeads: true },
    isOther: true,
  },
  {
    model: "architectures/minimax-m2",
    architecture: "minimax-m2",
    keys: [
      ["expert_count", U32, 6],
      ["expert_used_count", U32, 3],
      ["expert_feed_forward_length", U32, 40],
      ["expert_gating_func", U32, SIGMOID],
    ],
  },
  { model: "architectures/gpt-oss", architecture: "gpt-oss", keys: GPT_OSS_KEYS, isOther: true },
  {
    model: "architectures/gpt-oss",
    architecture: "gpt-oss",
    keys: GPT_OSS_KEYS,
    options: { mxfp4: /ffn_(gate|up)_exps\.weight/ },
    isOther: true,
  },
  { model: "architectures/hunyuan", architecture: "hunyuan-dense" },
  {
    model: "architectures/olmoe-2",
    architecture: "olmoe",
    keys: [
      ["expert_count", U32, 4],
      ["expert_used_count", U32, 2],
    ],
    options: { without: /bias$/ },
    isOther: true,
  },
  {
    model: "architectures/stablelm",
    architecture: "stablelm",
    keys: [["use_parallel_residual", BOOL, Uint8Array.of(0)]],
  },
  { model: "models/starcoder2", architecture: "starcoder2", isOther: true },
  // libllama takes no window for these.
  { model: "models/phi-3", architecture: "phi3", isOther: true },
  {
    model: "models/phi-3-longrope-long",
    architecture: "phi3",
    keys: [
      ["rope.scaling.original_context_length", U32, 64],
      ["rope.scaling.attn_factor", F32, Math.sqrt(1 + Math.log(2) / Math.log(64))],
    ],
  },
  { model: "architectures/exaone-3-2", architecture: "exaone" },
  { model: "models/llama-2", architecture: "internlm2" },
  {
    model: "architectures/minicpm",
    architecture: "minicpm",
    keys: [
      ["embedding_scale", F32, 6],
      ["residual_scale", F32, 1.4 / Math.SQRT2],
      ["logit_scale", F32, 2],
    ],
  },
  { model: "architectures/jais-2", architecture: "jais2" },
  {
    model: "architectures/hunyuan-moe",
    architecture: "hunyuan-moe",
    keys: [
      ["expert_count", U32, 4],
      ["expert_used_count", U32, 2],
      ["expert_feed_forward_length", U32, 40],
      ["expert_shared_feed_forward_length", U32, 40],
    ],
  },
  {
    model: "architectures/exaone-moe",
    architecture: "exaone-moe",
    keys: [...routing(1, true), ["expert_count", U32, 6], ["attention.sliding_window", U32, 8]],
    isOther: true,
  },
  {
    model: "architectures/ernie-4.5-moe",
    architecture: "ernie4_5-moe",
    keys: [
      ["expert_count", U32, 6],
      ["expert_used_count", U32, 3],
      ["expert_feed_forward_length", U32, 16],
      ["expert_shared_feed_forward_length", U32, 32],
      ["expert_shared_count", U32, 2],
      ["leading_dense_block_count", U32, 1],
      ["interleave_moe_layer_step", U32, 1],
    ],
  },
  {
    model: "architectures/afmoe",
    architecture: "afmoe",
    keys: [...routing(1, true), ["expert_count", U32, 6], ["attention.sliding_window", U32, 8]],
    isOther: true,
  },
  { model: "models/qwen3", architecture: "qwen3vl", keys: [["rope.dimension_sections", ARRAY, [U32, [6, 5, 5, 0]]]] },
);

interface Expected {
  readonly prompt: readonly number[];
  readonly logits: readonly (readonly number[])[];
}

async function logitsOf(runner: StepRunner, tokens: readonly number[]): Promise<Float32Array> {
  const sequence = new TestSequence(contiguousBlocks(0, 8));
  const [actual = new Float32Array()] = await append(runner, [{ sequence, tokens }]);
  return Float32Array.from(actual);
}

for (const { model, architecture, keys, options, isOther = false } of CASES) {
  test(`${model} as GGUF of ${architecture} gives the recorded logits with both engines`, async (t) => {
    const modelDir = join(PARITY, model);
    const path = join(directory, `${architecture}-${model.replace("/", "-")}.gguf`);
    await writeFile(path, await recordedAsGguf(modelDir, architecture, keys, options));
    const ours = await createDecoderRunner({ modelDir: path, numBlocks: 16, blockSize: 16, numThreads: 1 });
    t.after(() => ours.close());
    const { prompt, logits } = JSON.parse(await readFile(join(modelDir, "expected.json"), "utf8")) as Expected;
    const actual = await logitsOf(ours, prompt);
    const expected = isOther ? actual : (logits[0] ?? []);
    const off = maxDifference(actual, expected);
    assert.ok(off < OUR_BOUND, `our logits are off by ${off}`);
    const spec = {
      modelDir: path,
      engine: { ...DEFAULT_ENGINE_CONFIG, maxSequences: 2, maxBatchTokens: 64 },
      kvCacheTokens: 256,
      kvCache: { type: "f32" as const, bytes: 0, freeFraction: undefined, hostBytes: 0, attentionWindows: [] },
      numThreads: 1,
    };
    const settings = { path, reason: "a test asks", blockSize: 16, tell: () => undefined };
    const other = await createLlamaRunner(spec, settings);
    t.after(() => other.close());
    const theirs = maxDifference(await logitsOf(other, prompt), expected);
    t.diagnostic(`largest logit differences ${off.toExponential(1)} and ${theirs.toExponential(1)}`);
    assert.ok(theirs < LLAMA_BOUND, `libllama's logits are off by ${theirs}`);
  });
}
