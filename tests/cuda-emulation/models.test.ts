/**
 * Models whose heads fill no tile, files in blocks, narrower windows and the deterministic mode, with a runner for GPUs whose
 * kernels run on emulated threads.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import type { WeightType } from "../../server/src/device/cpu/convert-elements.ts";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { type CudaRunnerOptions, loadCudaRunner } from "../../server/src/engine/cuda/create-runner.ts";
import type { DecoderCudaRunner } from "../../server/src/engine/cuda/cuda-runner.ts";
import type { StepRunner } from "../../server/src/engine/step-runner.ts";
import { compareCourses, courseBlocks, coursesOf } from "../../server/src/engine/testing/courses.ts";
import { append, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { readTiny, toGguf } from "../../server/src/formats/gguf/tiny-gguf.test-support.ts";
import { openModelFiles } from "../../server/src/formats/hf/model-files.ts";
import type { TensorSource } from "../../server/src/formats/tensors/tensor-source.ts";
import { parseDecoderConfig } from "../../server/src/models/config/parse-decoder-config.ts";
import { hostCompiler } from "./compile-emulation.ts";
import { EmulatedGpu } from "./emulated-gpu.ts";

const MODELS = fileURLToPath(new URL("../parity/models/", import.meta.url));
const TOKENS = [5, 9, 200, 31, 7, 88, 14, 3, 61, 17];
const directory = await mkdtemp(join(tmpdir(), "gpu-models-"));
after(() => rm(directory, { recursive: true }));

const compiler = hostCompiler();
const skip = compiler.reason ?? false;

async function openGpu(modelDir: string, changes: Partial<CudaRunnerOptions> = {}): Promise<DecoderCudaRunner> {
  const { files, tensors } = await openModelFiles(modelDir);
  const sizes = { blockSize: 16, numBlocks: 24, maxTokens: 128, maxSequences: 12 };
  try {
    return await loadCudaRunner(new EmulatedGpu(compiler).asDevice(), parseDecoderConfig(files), tensors, {
      ...{ ...sizes, type: "f32", usesGraphs: false, ...changes, beside: undefined },
    });
  } finally {
    await tensors.close();
  }
}

/** After a prompt, and after each of three tokens more. */
async function logitsOf(runner: StepRunner): Promise<Float32Array[]> {
  const sequence = new TestSequence(contiguousBlocks(1, 4));
  const rows: Float32Array[] = [];
  const known = TOKENS.map((token) => token % runner.vocabSize);
  for (const tokens of [known.slice(0, 7), ...known.slice(7).map((token) => [token])]) {
    rows.push(...(await append(runner, [{ sequence, tokens }])));
  }
  await runner.close();
  return rows;
}

function largestDifference(a: readonly Float32Array[], b: readonly Float32Array[]): number {
  assert.equal(a.length, b.length);
  return Math.max(...a.map((row, i) => maxDifference(row, b[i] ?? [])));
}

for (const model of ["mistral-nemo", "qwen3"]) {
  test(`${model}, whose heads have 24 elements, gives the CPU's logits on an emulated GPU`, { skip }, async () => {
    const modelDir = join(MODELS, model);
    const expected = await logitsOf(
      await createDecoderRunner({ modelDir, numBlocks: 24, blockSize: 16, numThreads: 1 }),
    );
    assert.ok(largestDifference(await logitsOf(await openGpu(modelDir)), expected) < 1e-4);
    assert.ok(largestDifference(await logitsOf(await openGpu(modelDir, { type: "bf16" })), expected) < 6e-2);
  });
}

for (const model of ["granite-moe-shared", "opt", "gpt-oss", "gpt-oss-2"]) {
  test(`${model} gives the CPU's logits on an emulated GPU`, { skip }, async () => {
    const modelDir = fileURLToPath(new URL(`../parity/architectures/${model}`, import.meta.url));
    const cpu = await createDecoderRunner({ modelDir, numBlocks: 24, blockSize: 16, numThreads: 1 });
    assert.ok(largestDifference(await logitsOf(await openGpu(modelDir)), await logitsOf(cpu)) < 1e-4);
  });
}

for (const { model, matrixType, isDeterministic, bound } of [
  { model: "granite-moe-shared", matrixType: "bf16", isDeterministic: false, bound: 6e-2 },
  { model: "granite-moe-shared", matrixType: "e4m3", isDeterministic: false, bound: 0.3 },
  { model: "granite-moe-shared", matrixType: "e4m3", isDeterministic: true, bound: 0.3 },
  { model: "gpt-oss", matrixType: "bf16", isDeterministic: false, bound: 6e-2 },
  { model: "gpt-oss-2", matrixType: "e4m3", isDeterministic: false, bound: 0.3 },
] as const) {
  const how = `${matrixType}${isDeterministic ? " deterministic" : ""}`;
  test(`experts of ${model} in ${how} give about the CPU's logits on an emulated GPU`, { skip }, async () => {
    const modelDir = fileURLToPath(new URL(`../parity/architectures/${model}`, import.meta.url));
    const cpu = await createDecoderRunner({ modelDir, numBlocks: 24, blockSize: 16, numThreads: 1 });
    const gpu = await openGpu(modelDir, { type: "bf16", matrixType, isDeterministic });
    const off = largestDifference(await logitsOf(gpu), await logitsOf(cpu));
    assert.ok(off > 1e-5 && off < bound, `${how}: ${off}`);
  });
}

test("a model that needs what no kernel computes is refused when it is loaded", { skip }, async () => {
  const modelDir = fileURLToPath(new URL("../parity/architectures/glm-4-moe", import.meta.url));
  await assert.rejects(openGpu(modelDir), /the GPU engine lacks: this routing of experts.*KIND_CPU/);
});

test("an FP16 and an FP8 cache give the CPU's logits about as exactly as they hold numbers", {
  skip,
}, async () => {
  const modelDir = join(MODELS, "llama-3.2");
  const expected = await logitsOf(await createDecoderRunner({ modelDir, numBlocks: 24, blockSize: 16, numThreads: 1 }));
  for (const [cacheType, bound] of [
    ["f16", 5e-3],
    ["e4m3", 0.3],
  ] as const) {
    const off = largestDifference(await logitsOf(await openGpu(modelDir, { cacheType })), expected);
    assert.ok(off > 1e-5 && off < bound, `${cacheType}: ${off}`);
  }
});

for (const model of ["llama-2", "llama-3.2"]) {
  test(`${model} with an FP8 output gives about the CPU's logits on an emulated GPU`, {
    skip,
  }, async () => {
    const modelDir = join(MODELS, model);
    const sizes = { numBlocks: 24, blockSize: 16, numThreads: 1 };
    const expected = await logitsOf(await createDecoderRunner({ modelDir, ...sizes }));
    const plain = largestDifference(await logitsOf(await openGpu(modelDir, { type: "bf16" })), expected);
    for (const isDeterministic of [false, true]) {
      const gpu = await openGpu(modelDir, { type: "bf16", quantizesOutput: true, isDeterministic });
      const off = largestDifference(await logitsOf(gpu), expected);
      assert.ok(off > plain && off < 0.5, `${isDeterministic}: ${off} where bf16 is off by ${plain}`);
    }
  });
}

const MIXES: Readonly<Record<string, (name: string) => WeightType>> = {
  q4_0: () => "q4_0",
  "q4_0 and q8_0": (name) => (name.includes("attn_v") ? "q8_0" : "q4_0"),
};

for (const [mix, typeOf] of Object.entries(MIXES)) {
  test(`a GGUF file in ${mix} gives the CPU's logits on an emulated GPU`, { skip }, async () => {
    const modelDir = await mkdtemp(join(directory, "gguf-"));
    await writeFile(join(modelDir, "model.gguf"), toGguf(await readTiny(join(MODELS, "llama-2")), "llama", typeOf));
    const sizes = { numBlocks: 24, blockSize: 16, numThreads: 1 };
    const expected = await logitsOf(await createDecoderRunner({ modelDir, weightType: "f32", ...sizes }));
    assert.ok(largestDifference(await logitsOf(await openGpu(modelDir)), expected) < 1e-4);
    const lines: string[] = [];
    const inBlocks = await openGpu(modelDir, { type: "bf16", tell: (line) => lines.push(line) });
    assert.ok(largestDifference(await logitsOf(inBlocks), expected) < 6e-2);
    assert.match(lines.join("\n"), /weights \(in blocks: .*of Q4_0 as int4/);
  });
}

test("narrower windows than the model's give the CPU's logits on an emulated GPU", { skip }, async () => {
  const attentionWindows = [4, 64];
  const modelDir = join(MODELS, "llama-3.2");
  const sizes = { numBlocks: 24, blockSize: 16, numThreads: 1 };
  const expected = await logitsOf(await createDecoderRunner({ modelDir, attentionWindows, ...sizes }));
  const wide = await logitsOf(await createDecoderRunner({ modelDir, ...sizes }));
  assert.ok(largestDifference(wide, expected) > 1e-3);
  assert.ok(largestDifference(await logitsOf(await openGpu(modelDir, { attentionWindows })), expected) < 1e-4);
  const narrow = await openGpu(modelDir, { attentionWindows: [20] });
  assert.equal(narrow.window, 20);
  await narrow.close();
});

const NUM_TOKENS = 22;

/** As many rows as they come, with kernels for few and for many. */
async function differencesOf(model: string, changes: Partial<CudaRunnerOptions>): Promise<readonly string[]> {
  const courses = coursesOf(NUM_TOKENS, 16);
  const runner = await openGpu(join(MODELS, model), { numBlocks: courseBlocks(8), type: "bf16", ...changes });
  const tokens = Array.from({ length: NUM_TOKENS }, (_, i) => (i * 7919 + 13) % runner.vocabSize);
  const { numCompared, differences } = await compareCourses(runner, tokens, courses);
  await runner.close();
  assert.ok(numCompared >= courses.length, `only ${numCompared} rows were compared`);
  return differences;
}

test("a deterministic runner gives equal bits on an emulated GPU, whatever the course", { skip }, async () => {
  assert.deepEqual(await differencesOf("qwen3", { isDeterministic: true }), []);
  assert.deepEqual(await differencesOf("llama-3.2", { isDeterministic: true, cacheType: "e4m3" }), []);
});

/** A vocabulary that is no multiple of a vector. */
const ODD_VOCABULARY = 203;

/** The first rows of the embedding, which is the output too. */
function withVocabulary(files: TensorSource, numTokens: number): TensorSource {
  const name = "model.embed_tokens.weight";
  const whole = files.tensors.get(name);
  assert.ok(whole !== undefined);
  const [numRows = 0, width = 0] = whole.shape;
  const cut = { ...whole, shape: [numTokens, width], byteLength: (whole.byteLength / numRows) * numTokens };
  return {
    tensors: new Map([...files.tensors, [name, cut]]),
    integers: files.integers,
    read: (tensor, into, byteOffset) => files.read(tensor, into, byteOffset),
    close: () => files.close(),
  };
}

test("gemma-2 with a vocabulary that fills no vector gives the logits of the whole one on an emulated GPU", {
  skip,
}, async () => {
  const modelDir = join(MODELS, "gemma-2");
  const whole = await logitsOf(await openGpu(modelDir));
  const { files, tensors } = await openModelFiles(modelDir);
  const config = { ...(files.config as Readonly<Record<string, unknown>>), vocab_size: ODD_VOCABULARY };
  const sizes = { blockSize: 16, numBlocks: 24, maxTokens: 128, maxSequences: 12 };
  const parsed = parseDecoderConfig({ ...files, config });
  const source = withVocabulary(tensors, ODD_VOCABULARY);
  const device = new EmulatedGpu(compiler).asDevice();
  const cut = await logitsOf(
    await loadCudaRunner(device, parsed, source, { ...sizes, type: "f32", usesGraphs: false }),
  );
  await tensors.close();
  assert.ok(cut.every(({ length }) => length === ODD_VOCABULARY));
  const expected = whole.map((row) => row.subarray(0, ODD_VOCABULARY));
  assert.ok(largestDifference(cut, expected) < 1e-5);
});
