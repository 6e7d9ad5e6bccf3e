/**
 * End to end for each format: a tiny Hugging Face model, rewritten in that format, gives the logits of the original.
 */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../../kernels/testing/run-op.ts";
import { createDecoderRunner, type DecoderRunnerOptions } from "../../engine/cpu/cpu-runner.ts";
import { append, argmax, contiguousBlocks, stepOf, TestSequence } from "../../engine/testing/sequences.ts";
import { readTiny, toGguf } from "../gguf/tiny-gguf.test-support.ts";
import { safetensorsBytes, type TensorDraft } from "../tensors/safetensors-writer.test-support.ts";
import { hasModelFiles, openModelFiles } from "./model-files.ts";

const MODELS = fileURLToPath(new URL("../../../../tests/parity/models/", import.meta.url));
const TOKENS = [5, 9, 200, 31, 7, 88, 14];
const directory = await mkdtemp(join(tmpdir(), "model-files-"));
after(() => rm(directory, { recursive: true }));

async function logitsOf(modelDir: string, weightType?: DecoderRunnerOptions["weightType"]): Promise<Float32Array> {
  const runner = await createDecoderRunner({ modelDir, numBlocks: 8, blockSize: 16, numThreads: 1, weightType });
  const [logits] = await append(runner, [{ sequence: new TestSequence(contiguousBlocks(0, 4)), tokens: TOKENS }]);
  await runner.close();
  assert.ok(logits);
  return logits;
}

async function folderOf(name: string, files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
  const path = join(directory, name);
  await mkdir(path);
  for (const [file, content] of Object.entries(files)) await writeFile(join(path, file), content);
  return path;
}

const draft = (shape: readonly number[], data: Float32Array): TensorDraft => ({ dtype: "F32", shape, data });

for (const [name, architecture] of [
  ["llama-2", "llama"],
  ["mistral-nemo", "llama"],
  ["llama-linear-bias", "llama"],
  ["qwen2", "qwen2"],
] as const) {
  test(`createDecoderRunner() gives the same logits for ${name} as a GGUF file`, async () => {
    const tiny = await readTiny(join(MODELS, name));
    const scaling = tiny.config.rope_parameters as { readonly rope_type: string; readonly factor?: number };
    const plain = { ...tiny, config: { ...tiny.config, rope_parameters: { ...scaling, rope_type: "default" } } };
    const original = await folderOf(`${name}-plain`, {
      "config.json": JSON.stringify(plain.config),
      "model.safetensors": await readFile(join(MODELS, name, "model.safetensors")),
    });
    const folder = await folderOf(`${name}-gguf`, { "model.gguf": toGguf(plain, architecture) });
    const expected = await logitsOf(original);
    assert.equal(maxDifference(await logitsOf(folder), expected), 0);
    assert.equal(maxDifference(await logitsOf(join(folder, "model.gguf")), expected), 0);
  });
}

interface Quantized {
  readonly levels: Uint8Array; // [outputs, inputs]
  readonly zeros: Uint8Array; // [outputs, groups]
  readonly scales: Float32Array; // [outputs, groups], FP16
  readonly dequantized: Float32Array;
}

const GROUP = 32;
/** Powers of two: FP16 scales and their products with zeros are exact, so only activations are rounded. */
function quantize(values: Float32Array): Quantized {
  const numGroups = values.length / GROUP;
  const levels = new Uint8Array(values.length);
  const zeros = new Uint8Array(numGroups);
  const scales = new Float32Array(numGroups);
  const dequantized = new Float32Array(values.length);
  for (let group = 0; group < numGroups; group++) {
    const part = values.subarray(group * GROUP, (group + 1) * GROUP);
    const [low, high] = [Math.min(...part), Math.max(...part)];
    const scale = 2 ** Math.ceil(Math.log2((high - low) / 14));
    const zero = Math.min(15, Math.max(1, Math.round(-low / scale)));
    zeros[group] = zero;
    scales[group] = scale;
    for (const [i, value] of part.entries()) {
      const level = Math.min(15, Math.max(0, Math.round(value / scale) + zero));
      levels[group * GROUP + i] = level;
      dequantized[group * GROUP + i] = (level - zero) * scale;
    }
  }
  return { levels, zeros, scales, dequantized };
}

/** [rows, columns] of `at` in words of eight columns; nibble n is column `order[n]`. */
function packColumns(
  rows: number,
  columns: number,
  order: readonly number[],
  at: (r: number, c: number) => number,
): Int32Array {
  return Int32Array.from({ length: (rows * columns) / 8 }, (_, i) => {
    const [row, column] = [Math.floor(i / (columns / 8)), (i % (columns / 8)) * 8];
    return order.reduce((word, offset, n) => word | (at(row, column + offset) << (4 * n)), 0);
  });
}

const AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7];
const IN_ORDER = [0, 1, 2, 3, 4, 5, 6, 7];

function scalesDraft(scales: Float32Array, groups: number, outputs: number): TensorDraft {
  const exponents = Uint16Array.from({ length: groups * outputs }, (_, i) => {
    const scale = scales[(i % outputs) * groups + Math.floor(i / outputs)] ?? 0;
    return (Math.log2(scale) + 15) << 10;
  });
  return { dtype: "F16", shape: [groups, outputs], data: exponents };
}

type Pack = (quantized: Quantized, outputs: number, inputs: number) => Readonly<Record<string, TensorDraft>>;

const packAwq: Pack = ({ levels, zeros, scales }, outputs, inputs) => {
  const groups = inputs / GROUP;
  const weight = packColumns(inputs, outputs, AWQ_ORDER, (input, output) => levels[output * inputs + input] ?? 0);
  const zeroWords = packColumns(groups, outputs, AWQ_ORDER, (group, output) => zeros[output * groups + group] ?? 0);
  return {
    qweight: { dtype: "I32", shape: [inputs, outputs / 8], data: weight },
    qzeros: { dtype: "I32", shape: [groups, outputs / 8], data: zeroWords },
    scales: scalesDraft(scales, groups, outputs),
  };
};

const packGptq: Pack = ({ levels, zeros, scales }, outputs, inputs) => {
  const groups = inputs / GROUP;
  const words = packColumns(outputs, inputs, IN_ORDER, (output, input) => levels[output * inputs + input] ?? 0);
  const byInput = words.map((_, i) => words[(i % outputs) * (inputs / 8) + Math.floor(i / outputs)] ?? 0);
  const stored = packColumns(groups, outputs, IN_ORDER, (group, output) => (zeros[output * groups + group] ?? 0) - 1);
  return {
    qweight: { dtype: "I32", shape: [inputs / 8, outputs], data: byInput },
    qzeros: { dtype: "I32", shape: [groups, outputs / 8], data: stored },
    scales: scalesDraft(scales, groups, outputs),
    g_idx: {
      dtype: "I32",
      shape: [inputs],
      data: Int32Array.from({ length: inputs }, (_, i) => Math.floor(i / GROUP)),
    },
  };
};

const FORMATS: readonly (readonly [name: string, pack: Pack, quantization: object])[] = [
  ["AWQ", packAwq, { quant_method: "awq", bits: 4, group_size: GROUP, version: "gemm", zero_point: true }],
  ["GPTQ", packGptq, { quant_method: "gptq", bits: 4, group_size: GROUP, desc_act: false, sym: false }],
];

for (const [name, pack, quantization] of FORMATS) {
  test(`createDecoderRunner() runs ${name} as the weights that it stands for`, async () => {
    const { config, tensors } = await readTiny(join(MODELS, "llama-2"));
    const packed: Record<string, TensorDraft> = {};
    const wide: Record<string, TensorDraft> = {};
    for (const [tensor, { shape, values }] of tensors) {
      const [outputs = 0, inputs = 0] = shape;
      const isLinear = tensor.endsWith("_proj.weight");
      const quantized = isLinear ? quantize(values) : undefined;
      wide[tensor] = draft(shape, quantized?.dequantized ?? values);
      if (quantized === undefined) packed[tensor] = draft(shape, values);
      else {
        for (const [part, one] of Object.entries(pack(quantized, outputs, inputs))) {
          packed[tensor.replace(/weight$/, part)] = one;
        }
      }
    }
    const quantizedDir = await folderOf(`${name}-packed`, {
      "config.json": JSON.stringify({ ...config, quantization_config: quantization }),
      "model.safetensors": safetensorsBytes(packed),
    });
    const wideDir = await folderOf(`${name}-wide`, {
      "config.json": JSON.stringify(config),
      "model.safetensors": safetensorsBytes(wide),
    });
    const expected = await logitsOf(wideDir);
    assert.equal(maxDifference(await logitsOf(quantizedDir, "f32"), expected), 0);
    // As stored, activations are rounded to 8 bits before each GEMM.
    const asStored = maxDifference(await logitsOf(quantizedDir), expected);
    const spread = Math.max(...expected) - Math.min(...expected);
    assert.ok(asStored > 0 && asStored < 0.02 * spread, `logits are off by ${asStored} of ${spread}`);
  });
}

test("createDecoderRunner() gives the same logits for a TensorRT-LLM checkpoint of two ranks", async () => {
  const { config, tensors } = await readTiny(join(MODELS, "llama-2"));
  const part = (name: string, rank: number, axis: "rows" | "columns"): Float32Array => {
    const { shape, values } = tensors.get(name) ?? { shape: [], values: new Float32Array() };
    const [rows = 0, columns = 0] = shape;
    if (axis === "rows") return values.slice((rank * rows * columns) / 2, ((rank + 1) * rows * columns) / 2);
    return values.filter((_, i) => Math.floor((i % columns) / (columns / 2)) === rank);
  };
  const whole = (name: string): TensorDraft =>
    draft(tensors.get(name)?.shape ?? [], tensors.get(name)?.values ?? new Float32Array());
  const rankFile = (rank: number): Uint8Array => {
    const drafts: Record<string, TensorDraft> = {
      "transformer.vocab_embedding.weight": whole("model.embed_tokens.weight"),
      "transformer.ln_f.weight": whole("model.norm.weight"),
      "lm_head.weight": draft([128, 64], part("lm_head.weight", rank, "rows")),
    };
    for (const layer of [0, 1]) {
      const [from, to] = [`model.layers.${layer}`, `transformer.layers.${layer}`];
      const qkv = ["q", "k", "v"].flatMap((one) => [...part(`${from}.self_attn.${one}_proj.weight`, rank, "rows")]);
      drafts[`${to}.input_layernorm.weight`] = whole(`${from}.input_layernorm.weight`);
      drafts[`${to}.post_layernorm.weight`] = whole(`${from}.post_attention_layernorm.weight`);
      drafts[`${to}.attention.qkv.weight`] = draft([96, 64], Float32Array.from(qkv));
      drafts[`${to}.attention.dense.weight`] = draft(
        [64, 32],
        part(`${from}.self_attn.o_proj.weight`, rank, "columns"),
      );
      drafts[`${to}.mlp.fc.weight`] = draft([48, 64], part(`${from}.mlp.gate_proj.weight`, rank, "rows"));
      drafts[`${to}.mlp.gate.weight`] = draft([48, 64], part(`${from}.mlp.up_proj.weight`, rank, "rows"));
      drafts[`${to}.mlp.proj.weight`] = draft([64, 48], part(`${from}.mlp.down_proj.weight`, rank, "columns"));
    }
    return safetensorsBytes(drafts);
  };
  const trtllm = {
    architecture: "LlamaForCausalLM",
    dtype: "float32",
    vocab_size: config.vocab_size,
    hidden_size: config.hidden_size,
    intermediate_size: config.intermediate_size,
    num_hidden_layers: config.num_hidden_layers,
    num_attention_heads: config.num_attention_heads,
    num_key_value_heads: config.num_key_value_heads,
    max_position_embeddings: config.max_position_embeddings,
    position_embedding_type: "rope_gpt_neox",
    hidden_act: "silu",
    norm_epsilon: config.rms_norm_eps,
    rotary_base: 10_000,
    mapping: { world_size: 2, tp_size: 2, pp_size: 1 },
  };
  const folder = await folderOf("trtllm", {
    "config.json": JSON.stringify(trtllm),
    "rank0.safetensors": rankFile(0),
    "rank1.safetensors": rankFile(1),
  });
  assert.equal(maxDifference(await logitsOf(folder), await logitsOf(join(MODELS, "llama-2"))), 0);
});

for (const [weightType, share] of [
  ["q8_0", 0.02],
  ["q4_1", 0.15],
] as const) {
  for (const name of ["llama-2", "gpt2", "mixtral"]) {
    test(`createDecoderRunner() keeps the logits of ${name} within ${share} of their spread with ${weightType}`, async () => {
      const expected = await logitsOf(join(MODELS, name));
      const actual = await logitsOf(join(MODELS, name), weightType);
      const spread = Math.max(...expected) - Math.min(...expected);
      const off = maxDifference(actual, expected);
      assert.ok(off > 0 && off < share * spread, `logits are off by ${off} of ${spread}`);
    });
  }
}

const LANGUAGE_MODEL = fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model/", import.meta.url));

/** Share of recorded tokens that are the argmax after their predecessors. */
async function agreement(weightType: DecoderRunnerOptions["weightType"]): Promise<number> {
  const recorded = JSON.parse(await readFile(join(LANGUAGE_MODEL, "../golden_text.json"), "utf8")) as readonly {
    readonly input_ids: readonly number[];
    readonly output_ids: readonly number[];
  }[];
  const options = { modelDir: LANGUAGE_MODEL, numBlocks: 32, blockSize: 16, numThreads: 1 };
  const runner = await createDecoderRunner({ ...options, weightType });
  let [numSame, numTokens] = [0, 0];
  for (const { input_ids: prompt, output_ids: output } of recorded) {
    const tokens = [...prompt, ...output.slice(0, -1)];
    const step = stepOf(runner, [{ sequence: new TestSequence(contiguousBlocks(0, 32)), tokens }]);
    const rows = output.map((_, i) => prompt.length - 1 + i);
    const logits = await runner.run({ ...step, logitRows: Int32Array.from(rows) });
    const { vocabSize } = runner;
    numSame += output.filter((id, i) => argmax(logits.subarray(i * vocabSize, (i + 1) * vocabSize)) === id).length;
    numTokens += output.length;
  }
  await runner.close();
  return numSame / numTokens;
}

for (const [weightType, share] of [
  ["f32", 1],
  ["bf16", 0.99],
  ["q8_0", 0.97],
  ["q4_1", 0.75],
] as const) {
  test(`createDecoderRunner() with ${weightType} agrees in at least ${share} of the recorded tokens of nereid-tiny`, async () => {
    const agreed = await agreement(weightType);
    assert.ok(agreed >= share, `${agreed} of the tokens agree`);
  });
}

test("openModelFiles() says which file it expected", async () => {
  await assert.rejects(openModelFiles("/nowhere"), /\/nowhere: expected a folder with a model, or a GGUF file/);
  const empty = await folderOf("empty", {});
  await assert.rejects(openModelFiles(empty), /empty\/config\.json: expected a file/);
  const two = await folderOf("two", { "a.gguf": "", "b.gguf": "" });
  await assert.rejects(openModelFiles(two), /two: expected one GGUF model, got a\.gguf, b\.gguf/);
});

test("hasModelFiles() knows a model by its names", async () => {
  const empty = await folderOf("has-none", { "model.safetensors": "" });
  const gguf = await folderOf("has-gguf", { "a.gguf": "" });
  const hf = await folderOf("has-config", { "config.json": "" });
  assert.deepEqual([empty, "/nowhere", join(hf, "config.json")].map(hasModelFiles), [false, false, false]);
  assert.deepEqual([gguf, hf, join(gguf, "a.gguf")].map(hasModelFiles), [true, true, true]);
});
