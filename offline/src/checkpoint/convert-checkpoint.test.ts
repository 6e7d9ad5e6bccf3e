import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { createDecoderRunner } from "@nereid/server/engine/cpu/cpu-runner";
import { append, contiguousBlocks, TestSequence } from "@nereid/server/engine/testing/sequences";
import { Reporter } from "@nereid/server/files/progress";
import { openSafetensorsFile } from "@nereid/server/formats/tensors/safetensors";
import { maxDifference } from "@nereid/server/kernels/testing/run-op";
import { type ConvertOptions, convertCheckpoint } from "./convert-checkpoint.ts";
import { openDecoder } from "./open-decoder.ts";

const MODELS = fileURLToPath(new URL("../../../tests/parity/models/", import.meta.url));
const NAMES = [
  "gpt2",
  "llama-2",
  "llama-3.2",
  "llama-linear-bias",
  "mistral",
  "mistral-nemo",
  "mixtral",
  "gemma",
  "gemma-2",
  "gemma-3",
  "qwen2",
  "qwen2.5-yarn",
  "qwen2-moe",
  "qwen3",
  "qwen3-moe",
  "phi-2",
  "phi-3",
  "phi-3-longrope-long",
  "phi-3-longrope-short",
  "phi-4-mini",
  "starcoder2",
];
const SHAPE = { numBlocks: 32, blockSize: 4, numThreads: 1 };
const WHOLE = { tpSize: 1, ppSize: 1, embeddingSplit: "none" } as const;
/** One is added to norms of Gemma, and taken away again. */
const ROUNDING = 1e-5;

let folder = "";
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "convert-"));
});
after(() => rm(folder, { recursive: true }));

function convert(modelDir: string, outputDir: string, options: Partial<ConvertOptions> = {}) {
  return convertCheckpoint({
    modelDir,
    outputDir,
    dtype: "auto",
    mapping: WHOLE,
    weightOnly: undefined,
    reporter: new Reporter({ mode: "quiet", command: "convert-checkpoint" }),
    signal: new AbortController().signal,
    ...options,
  });
}

async function logitsOf(modelDir: string): Promise<Float32Array> {
  const runner = await createDecoderRunner({ ...SHAPE, modelDir });
  try {
    const sequence = new TestSequence(contiguousBlocks(0, SHAPE.numBlocks));
    const tokens = Array.from({ length: 80 }, (_, i) => (i * 37) % 250);
    const [logits = new Float32Array()] = await append(runner, [{ sequence, tokens }]);
    return logits;
  } finally {
    await runner.close();
  }
}

describe("convertCheckpoint() gives the logits of the folder of Hugging Face", () => {
  for (const name of NAMES) {
    test(name, async () => {
      const outputDir = join(folder, name);
      await convert(`${MODELS}${name}`, outputDir);
      const { parsed: before, tensors } = await openDecoder(`${MODELS}${name}`);
      const { parsed: after, tensors: converted } = await openDecoder(outputDir);
      assert.deepEqual(after.config, before.config);
      await Promise.all([tensors.close(), converted.close()]);
      const off = maxDifference(await logitsOf(outputDir), [...(await logitsOf(`${MODELS}${name}`))]);
      assert.ok(off < ROUNDING, `logits are off by ${off}`);
    });
  }
});

const SPLITS: readonly (readonly [name: string, mapping: ConvertOptions["mapping"]])[] = [
  ["gpt2", { tpSize: 2, ppSize: 2, embeddingSplit: "vocab" }],
  ["llama-linear-bias", { tpSize: 4, ppSize: 1, embeddingSplit: "none" }],
  ["mixtral", { tpSize: 2, ppSize: 1, embeddingSplit: "hidden" }],
  ["qwen2-moe", { tpSize: 2, ppSize: 2, embeddingSplit: "none" }],
  ["phi-3", { tpSize: 4, ppSize: 2, embeddingSplit: "hidden" }],
  ["phi-2", { tpSize: 2, ppSize: 1, embeddingSplit: "none" }],
  ["gemma-3", { tpSize: 2, ppSize: 4, embeddingSplit: "vocab" }],
];

describe("convertCheckpoint() gives the same logits split over ranks", () => {
  for (const [name, mapping] of SPLITS) {
    test(`${name} over ${mapping.tpSize} by ${mapping.ppSize}`, async () => {
      const outputDir = join(folder, `${name}-split`);
      const { numRanks } = await convert(`${MODELS}${name}`, outputDir, { mapping });
      assert.equal(numRanks, mapping.tpSize * mapping.ppSize);
      assert.equal((await readdir(outputDir)).length, numRanks + 1);
      const off = maxDifference(await logitsOf(outputDir), [...(await logitsOf(`${MODELS}${name}`))]);
      assert.ok(off < ROUNDING, `logits are off by ${off}`);
    });
  }
});

test("convertCheckpoint() writes the type that is asked for", async () => {
  for (const [dtype, stored] of [
    ["float32", "F32"],
    ["float16", "F16"],
    ["bfloat16", "BF16"],
  ] as const) {
    const outputDir = join(folder, `llama-${dtype}`);
    await convert(`${MODELS}llama-2`, outputDir, { dtype });
    const rank = await openSafetensorsFile(join(outputDir, "rank0.safetensors"));
    assert.deepEqual(new Set([...rank.tensors.values()].map((tensor) => tensor.dtype)), new Set([stored]));
    await rank.close();
    const config = JSON.parse(await readFile(join(outputDir, "config.json"), "utf8")) as Record<string, unknown>;
    assert.equal(config.dtype, dtype);
  }
});

test("convertCheckpoint() notes a cache of eight bits, and is read all the same", async () => {
  const outputDir = join(folder, "cache");
  await convert(`${MODELS}llama-2`, outputDir, { kvCacheAlgorithm: "FP8" });
  const rank = await openSafetensorsFile(join(outputDir, "rank0.safetensors"));
  const names = [...rank.tensors.keys()].filter((name) => name.endsWith("kv_cache_scaling_factor"));
  await rank.close();
  assert.deepEqual(
    names,
    [0, 1].map((i) => `transformer.layers.${i}.attention.kv_cache_scaling_factor`),
  );
  const config = JSON.parse(await readFile(join(outputDir, "config.json"), "utf8")) as Record<string, object>;
  assert.deepEqual(config.quantization, { quant_algo: null, kv_cache_quant_algo: "FP8" });
  assert.equal(maxDifference(await logitsOf(outputDir), [...(await logitsOf(`${MODELS}llama-2`))]), 0);
});

test("convertCheckpoint() names tensors and shapes as TensorRT-LLM does", async () => {
  const outputDir = join(folder, "names");
  await convert(`${MODELS}mixtral`, outputDir, { mapping: { tpSize: 2, ppSize: 1, embeddingSplit: "none" } });
  const rank = await openSafetensorsFile(join(outputDir, "rank1.safetensors"));
  const shapes = Object.fromEntries([...rank.tensors].map(([name, { shape }]) => [name, shape]));
  await rank.close();
  const layer = (i: number): Record<string, readonly number[]> => ({
    [`transformer.layers.${i}.input_layernorm.weight`]: [64],
    [`transformer.layers.${i}.attention.qkv.weight`]: [64, 64],
    [`transformer.layers.${i}.attention.dense.weight`]: [64, 32],
    [`transformer.layers.${i}.post_layernorm.weight`]: [64],
    [`transformer.layers.${i}.mlp.router.weight`]: [4, 64],
    [`transformer.layers.${i}.mlp.fc.weight`]: [4, 96, 64],
    [`transformer.layers.${i}.mlp.proj.weight`]: [4, 64, 48],
  });
  assert.deepEqual(shapes, {
    "transformer.vocab_embedding.weight": [256, 64],
    ...layer(0),
    ...layer(1),
    "transformer.ln_f.weight": [64],
    "lm_head.weight": [128, 64],
  });
});

/** Names behind that of layer 1, with their shapes, of one rank of two. */
const LAYER_NAMES: readonly (readonly [name: string, expected: Readonly<Record<string, readonly number[]>>])[] = [
  [
    "phi-3",
    {
      "input_layernorm.weight": [64],
      "attention.qkv.weight": [96, 64],
      "attention.dense.weight": [64, 32],
      "post_layernorm.weight": [64],
      "mlp.fc.weight": [96, 64],
      "mlp.proj.weight": [64, 48],
    },
  ],
  [
    "qwen2-moe",
    {
      "input_layernorm.weight": [64],
      "attention.qkv.weight": [64, 64],
      "attention.qkv.bias": [64],
      "attention.dense.weight": [64, 32],
      "post_layernorm.weight": [64],
      "mlp.router.weight": [6, 64],
      "mlp.fc.weight": [6, 32, 64],
      "mlp.proj.weight": [6, 64, 16],
      "mlp.shared_expert.fc.weight": [48, 64],
      "mlp.shared_expert.proj.weight": [64, 24],
      "mlp.shared_expert_gate.weight": [1, 64],
    },
  ],
];

for (const [name, expected] of LAYER_NAMES) {
  test(`convertCheckpoint() names the tensors of ${name} as TensorRT-LLM does`, async () => {
    const outputDir = join(folder, `${name}-names`);
    await convert(`${MODELS}${name}`, outputDir, { mapping: { tpSize: 2, ppSize: 1, embeddingSplit: "none" } });
    const rank = await openSafetensorsFile(join(outputDir, "rank0.safetensors"));
    const layer = [...rank.tensors].filter(([key]) => key.startsWith("transformer.layers.1."));
    await rank.close();
    assert.deepEqual(
      Object.fromEntries(layer.map(([key, { shape }]) => [key.slice("transformer.layers.1.".length), shape])),
      expected,
    );
  });
}

test("convertCheckpoint() says which Qwen it is, in types of TensorRT-LLM's class", async () => {
  for (const [name, type] of [
    ["qwen2", "qwen2"],
    ["qwen2-moe", "qwen2_moe"],
    ["qwen3", "qwen3"],
    ["qwen3-moe", "qwen3_moe"],
  ] as const) {
    const outputDir = join(folder, `${name}-type`);
    await convert(`${MODELS}${name}`, outputDir);
    const config = JSON.parse(await readFile(join(outputDir, "config.json"), "utf8")) as Record<string, unknown>;
    assert.equal(config.qwen_type, type);
  }
});

test("convertCheckpoint() keeps the sections of rotary positions of a model that sees", async () => {
  const modelDir = `${MODELS}../../vision/qwen2-vl`;
  const outputDir = join(folder, "qwen2-vl");
  await convert(modelDir, outputDir);
  const config = JSON.parse(await readFile(join(outputDir, "config.json"), "utf8")) as Record<string, unknown>;
  assert.equal(config.position_embedding_type, "mrope");
  const [before, after] = [await openDecoder(modelDir), await openDecoder(outputDir)];
  assert.deepEqual(after.parsed.config, before.parsed.config);
  await Promise.all([before.tensors.close(), after.tensors.close()]);
});

test("a checkpoint whose shared experts lie beside the MLP, as earlier releases have it, is read alike", async () => {
  const outputDir = join(folder, "qwen2-moe-earlier");
  await convert(`${MODELS}qwen2-moe`, outputDir);
  const expected = await logitsOf(outputDir);
  const path = join(outputDir, "rank0.safetensors");
  const bytes = await readFile(path);
  const length = Number(bytes.readBigUInt64LE(0));
  const header = bytes.toString("utf8", 8, 8 + length).replaceAll(/\.mlp\.(shared_expert)/g, ".$1");
  bytes.write(header.padEnd(length), 8, "utf8");
  await writeFile(path, bytes);
  assert.equal(maxDifference(await logitsOf(outputDir), [...expected]), 0);
});

const REFUSED: readonly (readonly [mapping: ConvertOptions["mapping"], expected: RegExp])[] = [
  [{ tpSize: 3, ppSize: 1, embeddingSplit: "none" }, /--tp_size 3 does not divide 4 heads/],
  [{ tpSize: 1, ppSize: 3, embeddingSplit: "none" }, /--pp_size 3 does not divide 2 layers/],
];

for (const [mapping, expected] of REFUSED) {
  test(`convertCheckpoint() refuses ${mapping.tpSize} by ${mapping.ppSize} ranks before it writes`, async () => {
    const outputDir = join(folder, "refused");
    await assert.rejects(convert(`${MODELS}llama-2`, outputDir, { mapping }), expected);
    await assert.rejects(readdir(outputDir), /ENOENT/);
  });
}

test("convertCheckpoint() leaves nothing behind when it is interrupted, and keeps what it did not write", async () => {
  const interrupted = new AbortController();
  interrupted.abort(new Error("interrupted"));
  const outputDir = join(folder, "interrupted");
  await assert.rejects(convert(`${MODELS}llama-2`, outputDir, { signal: interrupted.signal }), /interrupted/);
  assert.equal((await readdir(folder)).filter((name) => name.includes("interrupted")).length, 0);
  await assert.rejects(convert(`${MODELS}llama-2`, `${MODELS}llama-2`), /is there already/);
});
