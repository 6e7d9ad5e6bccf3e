/**
 * Adapters on a GPU without one: recorded models of Hugging Face peft run by the runner for GPUs, with its kernels on
 * emulated threads, against the recorded logits and tokens.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { relativeError } from "../../server/kernels/testing/cuda-check.ts";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { loadCudaRunner } from "../../server/src/engine/cuda/create-runner.ts";
import type { DecoderCudaRunner } from "../../server/src/engine/cuda/cuda-runner.ts";
import { append, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { openModelFiles } from "../../server/src/formats/hf/model-files.ts";
import { readPeft } from "../../server/src/formats/lora/peft.ts";
import { parseDecoderConfig } from "../../server/src/models/config/parse-decoder-config.ts";
import { hostCompiler } from "./compile-emulation.ts";
import { EmulatedGpu } from "./emulated-gpu.ts";

interface Expected {
  readonly prompt?: readonly number[];
  readonly greedy: readonly number[];
  readonly logits: readonly (readonly number[])[];
}

const MODELS = fileURLToPath(new URL("../parity/models/", import.meta.url));
const ADAPTERS = fileURLToPath(new URL("../parity/adapters/", import.meta.url));
const BLOCKS = 5;
const ROOM = { maxBytes: 2 ** 24, maxRank: 16 };
const NUM_STEPS = 2;

const compiler = hostCompiler();
const skip = compiler.reason ?? false;

async function openRunner(model: string, type: "f32" | "bf16", matrixType?: "e4m3"): Promise<DecoderCudaRunner> {
  const { files, tensors } = await openModelFiles(`${MODELS}${model}`);
  try {
    return await loadCudaRunner(new EmulatedGpu(compiler).asDevice(), parseDecoderConfig(files), tensors, {
      matrixType,
      ...{ type, blockSize: 16, numBlocks: 40, maxTokens: 256, maxSequences: 8, usesGraphs: false, adapters: ROOM },
    });
  } finally {
    await tensors.close();
  }
}

const readJson = (path: string): Expected => JSON.parse(readFileSync(path, "utf8")) as Expected;

for (const [model, type, bound] of [
  ["llama-3.2", "f32", 1e-4],
  ["llama-3.2", "bf16", 6e-2],
  ["gpt2", "f32", 1e-4],
] as const) {
  test(`run() of ${model} in ${type} on an emulated GPU gives each sequence what its adapter makes`, {
    skip,
  }, async () => {
    const runner = await openRunner(model, type);
    const { adapters } = runner;
    assert.ok(adapters);
    const base = readJson(`${MODELS}${model}/expected.json`);
    const { prompt = [] } = base;
    const names = readdirSync(`${ADAPTERS}${model}`).sort().slice(0, 3);
    const wanted = [base, ...names.map((name) => readJson(`${ADAPTERS}${model}/${name}/expected.json`))];
    const ids: (number | undefined)[] = [undefined];
    for (const name of names) {
      ids.push(await adapters.load(await readPeft(`${ADAPTERS}${model}/${name}`, adapters.targets)));
    }
    const sequences = ids.map((id, i) => new TestSequence(contiguousBlocks(i * BLOCKS, BLOCKS), id));
    let parts = sequences.map((sequence, i) => ({ sequence, tokens: prompt.slice(0, 2 + i) }));
    await append(runner, parts);
    parts = sequences.map((sequence, i) => ({ sequence, tokens: prompt.slice(2 + i) }));
    for (let step = 0; step < NUM_STEPS; step++) {
      const rows = await append(runner, parts.toReversed());
      for (const [i, row] of rows.toReversed().entries()) {
        const off = maxDifference(row, wanted[i]?.logits[step] ?? []);
        assert.ok(off < bound, `step ${step}, sequence ${i}: logits are off by ${off}`);
      }
      parts = sequences.map((sequence, i) => ({ sequence, tokens: [wanted[i]?.greedy[step] ?? 0] }));
    }
    const [, id = 0] = ids;
    adapters.unload(id);
    await assert.rejects(append(runner, parts), new RegExp(`no adapter ${id} is loaded`));
    await runner.close();
  });
}

test("run() of FP8 on an emulated GPU changes logits as the adapter does, of codes and of few rows", {
  skip,
}, async () => {
  const runner = await openRunner("llama-3.2", "bf16", "e4m3");
  const { adapters } = runner;
  assert.ok(adapters);
  const [base, wanted] = ["models/llama-3.2", "adapters/llama-3.2/b"].map((path) =>
    readJson(fileURLToPath(new URL(`../parity/${path}/expected.json`, import.meta.url))),
  );
  assert.ok(base && wanted);
  const id = await adapters.load(await readPeft(`${ADAPTERS}llama-3.2/b`, adapters.targets));
  const [plain, adapted] = [
    new TestSequence(contiguousBlocks(0, BLOCKS)),
    new TestSequence(contiguousBlocks(8, BLOCKS), id),
  ];
  const { prompt = [] } = base;
  const both = (from: number, to: number): Promise<Float32Array[]> => {
    const tokens = prompt.slice(from, to);
    return append(
      runner,
      [plain, adapted].map((sequence) => ({ sequence, tokens })),
    );
  };
  // Many rows are multiplied as codes, those of the end as they are.
  await both(0, prompt.length - 4);
  const [before = new Float32Array(), after = new Float32Array()] = await both(prompt.length - 4, prompt.length);
  const changed = after.map((value, i) => value - (before[i] ?? 0));
  const expected = Float32Array.from(wanted.logits[0] ?? [], (value, i) => value - (base.logits[0]?.[i] ?? 0));
  const error = relativeError(changed, expected);
  assert.ok(error < 0.2, `what the adapter changes is off by ${error} of itself`);
  await runner.close();
});
