/**
 * Adapters on a GPU without one: recorded models of Hugging Face peft run by the runner for GPUs, with its kernels on
 * emulated threads, against the recorded logits and tokens.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { loadCudaRunner } from "../../server/src/engine/create-cuda-runner.ts";
import type { DecoderCudaRunner } from "../../server/src/engine/decoder-cuda-runner.ts";
import { append, contiguousBlocks, TestSequence } from "../../server/src/engine/testing-sequences.ts";
import { openModelFiles } from "../../server/src/formats/model-files.ts";
import { readPeft } from "../../server/src/formats/peft.ts";
import { parseDecoderConfig } from "../../server/src/models/parse-decoder-config.ts";
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

async function openRunner(model: string, type: "f32" | "bf16"): Promise<DecoderCudaRunner> {
  const { files, tensors } = await openModelFiles(`${MODELS}${model}`);
  try {
    return await loadCudaRunner(new EmulatedGpu(compiler).asDevice(), parseDecoderConfig(files), tensors, {
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
