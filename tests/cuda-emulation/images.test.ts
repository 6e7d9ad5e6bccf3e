/**
 * Prompts with images on emulated GPUs, one and two: rows in place of tokens, and tokens that stand at a time, a row and a
 * column, against the CPU's engine.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import type { CudaRunnerOptions } from "../../server/src/engine/cuda/create-runner.ts";
import type { GenerateRequest } from "../../server/src/engine/request/generate.ts";
import type { StepInput, StepRunner } from "../../server/src/engine/step-runner.ts";
import { engineOf, generateTokens, greedyRequest } from "../../server/src/engine/testing/generation.ts";
import { contiguousBlocks, stepOf, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { hostCompiler } from "./compile-emulation.ts";
import { EmulatedGpu } from "./emulated-gpu.ts";
import { openEmulatedRanks } from "./emulated-rank.ts";
import { openEmulated } from "./open-emulated.ts";

const VISION = fileURLToPath(new URL("../vision/", import.meta.url));
const HIDDEN = 32;
const SIZES = { blockSize: 16, numBlocks: 24, maxTokens: 64, maxSequences: 4 };
const skip = hostCompiler().reason ?? false;

/** A text of two, an image of 2 x 3, a text of two. */
const TOKENS = [5, 7, 0, 0, 0, 0, 0, 0, 11, 20];
const ROWS = [2, 3, 4, 5, 6, 7];
const AXES = [
  [0, 1, 2, 2, 2, 2, 2, 2, 5, 6],
  [0, 1, 2, 2, 2, 3, 3, 3, 5, 6],
  [0, 1, 2, 3, 4, 2, 3, 4, 5, 6],
];
const VALUES = valuesOf(HIDDEN);

function valuesOf(hiddenSize: number): Float32Array {
  return Float32Array.from({ length: ROWS.length * hiddenSize }, (_, i) => Math.sin(i * i + 1));
}

function optionsOf(model: string, changes: Partial<CudaRunnerOptions>): CudaRunnerOptions {
  return { modelDir: `${VISION}${model}`, type: "f32", ...SIZES, ...changes };
}

function openCpu(model: string): Promise<StepRunner> {
  return createDecoderRunner({ modelDir: `${VISION}${model}`, numBlocks: 24, blockSize: 16, numThreads: 1 });
}

/** Logits after the prompt, in two chunks beside a text, and after a token more. */
async function logitsOf(runner: StepRunner, hasAxes: boolean): Promise<Float32Array[]> {
  const [seeing, reading] = [0, 8].map((first) => new TestSequence(contiguousBlocks(first, 4)));
  assert.ok(seeing && reading);
  const rows: Float32Array[] = [];
  const step = async (from: number, tokens: readonly number[], text: readonly number[]): Promise<void> => {
    const end = from + tokens.length;
    const parts = [
      { sequence: seeing, tokens },
      { sequence: reading, tokens: text },
    ];
    const plain = stepOf(runner, parts);
    const axes = AXES.flatMap((axis) => [
      ...tokens.map((_, i) => axis[from + i] ?? from + i - 3),
      ...plain.positions.subarray(tokens.length),
    ]);
    const here = ROWS.filter((row) => row >= from && row < end);
    const first = (here[0] ?? 0) - (ROWS[0] ?? 0);
    const embeddings = {
      rows: Int32Array.from(here, (row) => row - from),
      values: VALUES.subarray(first * HIDDEN, (first + here.length) * HIDDEN),
    };
    const input: StepInput = {
      ...plain,
      ...(hasAxes ? { axes: Int32Array.from(axes) } : {}),
      ...(here.length === 0 ? {} : { embeddings }),
    };
    const logits = (await runner.run(input)).slice();
    for (const i of [0, 1]) rows.push(logits.subarray(i * runner.vocabSize, (i + 1) * runner.vocabSize));
    for (const { sequence, tokens: own } of parts) sequence.numCached += own.length;
  };
  await step(0, TOKENS.slice(0, 4), [9, 8]);
  await step(4, TOKENS.slice(4), [7]);
  await step(10, [33], [6]);
  return rows;
}

function largestDifference(a: readonly Float32Array[], b: readonly Float32Array[]): number {
  return Math.max(...a.map((row, i) => maxDifference(row, b[i] ?? [])));
}

for (const model of ["qwen2-vl", "qwen2.5-vl"]) {
  test(`${model} gives the CPU's logits on an emulated GPU for tokens at a time, a row and a column`, {
    skip,
  }, async () => {
    const cpu = await openCpu(model);
    const expected = await logitsOf(cpu, true);
    const flat = await logitsOf(cpu, false);
    await cpu.close();
    const apart = largestDifference(flat, expected);
    for (const [type, share] of [
      ["f32", 1e-3],
      ["bf16", 0.2],
    ] as const) {
      const runner = await openEmulated(new EmulatedGpu(hostCompiler()), optionsOf(model, { type }));
      assert.equal(runner.hasAxes, true);
      assert.ok(largestDifference(await logitsOf(runner, true), expected) < share * apart);
      assert.ok(largestDifference(await logitsOf(runner, false), flat) < share * apart);
      await runner.close();
    }
  });
}

/** The image's rows are those behind the vocabulary. */
function seeingRequest({ vocabSize, hiddenSize }: StepRunner, hasAxes: boolean): GenerateRequest {
  const prompt = TOKENS.map((token, i) => (ROWS.includes(i) ? vocabSize + i - 2 : token));
  const promptTable = { numRows: ROWS.length, values: valuesOf(hiddenSize) };
  const request = { ...greedyRequest(prompt, 6), promptTable };
  return hasAxes ? { ...request, promptPositions: Int32Array.from(AXES.flat()) } : request;
}

for (const [model, ranks, hasAxes] of [
  ["qwen2-vl", "2x1", true],
  ["llava", "1x2", false],
] as const) {
  test(`an engine of ${model} on emulated GPUs, ${ranks}, gives the CPU's tokens for a prompt with an image`, {
    skip,
  }, async () => {
    const onCpu = await openCpu(model);
    const requests = [seeingRequest(onCpu, hasAxes), greedyRequest([9, 8, 7], 6)];
    const cpuEngine = engineOf(onCpu);
    const expected = await generateTokens(cpuEngine, requests);
    await cpuEngine.close();
    const { runner } = await openEmulatedRanks(ranks, optionsOf(model, {}));
    const engine = engineOf(runner);
    assert.deepEqual(await generateTokens(engine, requests), expected);
    await engine.close();
  });
}
