/** Folders of AWQ and GPTQ become checkpoints with the very integers, scales and zeros that they have. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { createDecoderRunner } from "@nereid/server/engine/cpu/cpu-runner";
import { append, contiguousBlocks, TestSequence } from "@nereid/server/engine/testing/sequences";
import { Reporter } from "@nereid/server/files/progress";
import { openSafetensorsFile } from "@nereid/server/formats/tensors/safetensors";
import { safetensorsBytes, type TensorDraft } from "@nereid/server/formats/tensors/safetensors-writer.test-support";
import { maxDifference } from "@nereid/server/kernels/testing/run-op";
import { type ConvertOptions, convertCheckpoint } from "../checkpoint/convert-checkpoint.ts";
import { openDecoder } from "../checkpoint/open-decoder.ts";
import { quantize } from "./quantize.ts";
import { type IntegerFolder, writeIntegerModel } from "./quantized-model.test-support.ts";

const BASE = {
  vocab_size: 256,
  hidden_size: 64,
  intermediate_size: 128,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  max_position_embeddings: 128,
  hidden_act: "silu",
  rms_norm_eps: 1e-5,
  torch_dtype: "float32",
};
const LLAMA = { ...BASE, architectures: ["LlamaForCausalLM"], model_type: "llama" };
const MIXTRAL = {
  ...BASE,
  architectures: ["MixtralForCausalLM"],
  model_type: "mixtral",
  num_local_experts: 4,
  num_experts_per_tok: 2,
  sliding_window: null,
};
const PHI3 = { ...BASE, architectures: ["Phi3ForCausalLM"], model_type: "phi3", pad_token_id: 0 };
const WHOLE = { tpSize: 1, ppSize: 1, embeddingSplit: "none" } as const;
const SPLIT = { tpSize: 2, ppSize: 2, embeddingSplit: "vocab" } as const;
const reporter = new Reporter({ mode: "quiet", command: "convert-checkpoint" });
const { signal } = new AbortController();

let folder = "";
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "integers-"));
});
after(() => rm(folder, { recursive: true }));

async function convert(modelDir: string, outputDir: string, options: Partial<ConvertOptions> = {}): Promise<unknown> {
  const given = { modelDir, outputDir, dtype: "auto", mapping: WHOLE, weightOnly: undefined } as const;
  const { algorithm } = await convertCheckpoint({ ...given, reporter, signal, ...options });
  const { quantization } = JSON.parse(await readFile(join(outputDir, "config.json"), "utf8")) as {
    readonly quantization: Readonly<Record<string, unknown>>;
  };
  assert.equal(quantization.quant_algo, algorithm);
  return { algorithm, group_size: quantization.group_size, has_zero_point: quantization.has_zero_point };
}

/** Numbers of each matrix, whichever way they are stored. */
async function integersIn(modelDir: string): Promise<Record<string, unknown>> {
  const { tensors } = await openDecoder(modelDir);
  const found: Record<string, unknown> = {};
  for (const [name, integers] of tensors.integers ?? []) {
    const { codes, scales, zeros, groupSize, inputScales } = await integers.readInt4();
    const middle = new Uint8Array(scales.length).fill(8);
    found[name] = {
      codes: Buffer.from(codes).toString("hex"),
      scales: [...scales],
      zeros: [...(zeros ?? middle)],
      groupSize,
      inputScales: inputScales && [...inputScales],
    };
  }
  await tensors.close();
  return found;
}

async function logitsOf(modelDir: string): Promise<Float32Array> {
  const runner = await createDecoderRunner({ modelDir, numBlocks: 8, blockSize: 16, numThreads: 1, weightType: "f32" });
  try {
    const sequence = new TestSequence(contiguousBlocks(0, 8));
    const tokens = Array.from({ length: 40 }, (_, i) => (i * 37) % 250);
    const [logits = new Float32Array()] = await append(runner, [{ sequence, tokens }]);
    return logits;
  } finally {
    await runner.close();
  }
}

const KINDS: readonly (readonly [what: string, kind: IntegerFolder, config: object, expected: object])[] = [
  [
    "AWQ",
    { method: "awq", groupSize: 32, hasZeros: true },
    LLAMA,
    { algorithm: "W4A16_GPTQ", group_size: 32, has_zero_point: true },
  ],
  [
    "GPTQ without zeros",
    { method: "gptq", groupSize: 32, hasZeros: false },
    LLAMA,
    { algorithm: "W4A16_AWQ", group_size: 32, has_zero_point: false },
  ],
  [
    "GPTQ with zeros",
    { method: "gptq", groupSize: 32, hasZeros: true },
    LLAMA,
    { algorithm: "W4A16_GPTQ", group_size: 32, has_zero_point: true },
  ],
  [
    "AWQ with experts",
    { method: "awq", groupSize: 32, hasZeros: true },
    MIXTRAL,
    { algorithm: "W4A16_GPTQ", group_size: 32, has_zero_point: true },
  ],
  [
    "AWQ with rows of several matrices in one",
    { method: "awq", groupSize: 32, hasZeros: true },
    PHI3,
    { algorithm: "W4A16_GPTQ", group_size: 32, has_zero_point: true },
  ],
];

describe("convertCheckpoint() keeps the integers of a folder", () => {
  for (const [what, kind, config, expected] of KINDS) {
    test(what, async () => {
      const source = join(folder, what);
      await writeIntegerModel(source, { ...config }, kind);
      for (const [name, mapping] of [
        ["whole", WHOLE],
        ["split", SPLIT],
      ] as const) {
        const output = join(folder, `${what}-${name}`);
        assert.deepEqual(await convert(source, output, { mapping }), expected);
        assert.deepEqual(await integersIn(output), await integersIn(source));
        const off = maxDifference(await logitsOf(output), [...(await logitsOf(source))]);
        assert.ok(off < 1e-5, `over ${mapping.tpSize} ranks logits are off by ${off}`);
      }
    });
  }
});

test("convertCheckpoint() as int4_gptq writes zeros where there are none, and refuses floats", async () => {
  const source = join(folder, "symmetric");
  await writeIntegerModel(source, LLAMA, { method: "gptq", groupSize: 64, hasZeros: false });
  const output = join(folder, "symmetric-gptq");
  const expected = { algorithm: "W4A16_GPTQ", group_size: 64, has_zero_point: true };
  assert.deepEqual(await convert(source, output, { weightOnly: "gptq" }), expected);
  assert.deepEqual(await integersIn(output), await integersIn(source));
  const plain = fileURLToPath(new URL("../../../tests/parity/models/llama-2", import.meta.url));
  await assert.rejects(convert(plain, join(folder, "none"), { weightOnly: "gptq" }), /as int4_gptq: they are floats/);
});

test("convertCheckpoint() keeps scales of inputs of a checkpoint that it splits anew", async () => {
  const source = join(folder, "scaled-source");
  await writeIntegerModel(source, LLAMA, { method: "gptq", groupSize: 32, hasZeros: false });
  const scaled = join(folder, "scaled");
  await convert(source, scaled);
  await addInputScales(join(scaled, "rank0.safetensors"));
  const output = join(folder, "scaled-split");
  const expected = { algorithm: "W4A16_AWQ", group_size: 32, has_zero_point: false };
  assert.deepEqual(await convert(scaled, output, { mapping: SPLIT }), expected);
  const found = await integersIn(output);
  assert.deepEqual(found, await integersIn(scaled));
  const { inputScales } = found["model.layers.0.mlp.down_proj.weight"] as { readonly inputScales: readonly number[] };
  assert.deepEqual(inputScales.slice(0, 3), [1, 1.25, 1.5]);
});

/** As a tool writes them that does not fold them into what comes before. */
async function addInputScales(path: string): Promise<void> {
  const file = await openSafetensorsFile(path);
  const drafts: Record<string, TensorDraft> = {};
  for (const { name, dtype, shape, byteLength } of file.tensors.values()) {
    const data = new Uint8Array(byteLength);
    await file.read(name, data);
    drafts[name] = { dtype: dtype as TensorDraft["dtype"], shape: [...shape], data };
    if (!name.endsWith(".weights_scaling_factor")) continue;
    const length = 32 * (shape[1] ?? 0);
    const scales = Float32Array.from({ length }, (_, i) => 1 + (i % 4) / 4);
    drafts[name.replace("weights", "prequant")] = { dtype: "F32", shape: [length], data: scales };
  }
  await file.close();
  await writeFile(path, safetensorsBytes(drafts));
}

test("convertCheckpoint() refuses ranks that would cut a group", async () => {
  const source = join(folder, "wide-groups");
  await writeIntegerModel(source, LLAMA, { method: "awq", groupSize: 64, hasZeros: true });
  const mapping = { tpSize: 2, ppSize: 1, embeddingSplit: "none" } as const;
  const expected = /attention\.dense has 32 inputs on a rank, which its groups of 64 do not divide/;
  await assert.rejects(convert(source, join(folder, "cut"), { mapping }), expected);
});

test("quantize() as int4_awq keeps integers, and rounds anew for other groups", async () => {
  const source = join(folder, "ready");
  await writeIntegerModel(source, LLAMA, { method: "awq", groupSize: 32, hasZeros: true });
  const options = {
    modelDir: source,
    format: "int4_awq",
    dtype: "auto",
    mapping: WHOLE,
    isSearched: true,
    calibration: { source: "built-in", maxTexts: 1, maxTokens: 16 },
    evaluation: undefined,
    kvCacheAlgorithm: undefined,
    device: { kind: "cpu" },
    reporter,
    signal,
  } as const;
  const kept = join(folder, "ready-kept");
  await quantize({ ...options, outputDir: kept, groupSize: undefined });
  assert.deepEqual(await integersIn(kept), await integersIn(source));
  const anew = join(folder, "ready-anew");
  await quantize({ ...options, outputDir: anew, groupSize: 64 });
  const { "model.layers.0.mlp.down_proj.weight": matrix } = await integersIn(anew);
  assert.equal((matrix as { readonly groupSize: number }).groupSize, 64);
});
