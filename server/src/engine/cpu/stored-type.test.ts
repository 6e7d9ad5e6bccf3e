import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../../kernels/testing/run-op.ts";
import { DEFAULT_ENGINE_CONFIG } from "../engine-config.ts";
import type { EngineSpec } from "../engine-spec.ts";
import { append, contiguousBlocks, TestSequence } from "../testing/sequences.ts";
import { createDecoderRunner } from "./cpu-runner.ts";
import { planCpuMemory } from "./memory-demand.ts";
import { narrowTypeOf, withChosenType } from "./stored-type.ts";

const MODELS = fileURLToPath(new URL("../../../../tests/parity/models/", import.meta.url));

function specOf(name: string, weightType: EngineSpec["weightType"]): EngineSpec {
  return { modelDir: MODELS + name, engine: DEFAULT_ENGINE_CONFIG, kvCacheTokens: 64, numThreads: 1, weightType };
}

test("withChosenType() keeps the type of the files where it is about as fast as f32, and says why", async () => {
  const lines: string[] = [];
  const tell = (line: string): void => void lines.push(line);
  const took = (narrow: number) => () => Promise.resolve([narrow, 1] as const);
  const spec = specOf("mistral", "stored");
  assert.equal((await withChosenType(spec, tell, took(1.05))).weightType, "stored");
  assert.equal((await withChosenType(spec, tell, took(1.2))).weightType, undefined);
  assert.match(lines[0] ?? "", /^weights stay bf16: a GEMM of one row takes 1.05 ms, and 1.00 ms with f32$/);
  assert.match(lines[1] ?? "", /^weights become f32, as bf16 is slow here/);
  assert.equal((await withChosenType(specOf("llama-2", "stored"), tell, took(1))).weightType, undefined);
  assert.equal((await withChosenType(specOf("mistral", "q8_0"), tell, took(9))).weightType, "q8_0");
});

test("withChosenType() measures this processor", async () => {
  const lines: string[] = [];
  await withChosenType(specOf("gpt2", "stored"), (line) => void lines.push(line));
  assert.match(lines.join("\n"), /f16.* takes \d+\.\d\d ms, and \d+\.\d\d ms with f32/);
});

test("weights that stay as they are stored take half the memory, and give about the same logits", async (t) => {
  const logits: Float32Array[] = [];
  for (const weightType of [undefined, "stored"] as const) {
    const runner = await createDecoderRunner({
      modelDir: `${MODELS}mistral`,
      numBlocks: 8,
      blockSize: 8,
      numThreads: 1,
      weightType,
    });
    t.after(() => runner.close());
    const sequence = new TestSequence(contiguousBlocks(0, 4));
    const [row] = await append(runner, [{ sequence, tokens: [5, 9, 200, 31, 7] }]);
    logits.push(row ?? new Float32Array());
  }
  const off = maxDifference(logits[0] ?? [], logits[1] ?? []);
  assert.ok(off > 0 && off < 3e-2, `logits are off by ${off}`);
  const bytesOf = async (weightType: EngineSpec["weightType"]): Promise<number> => {
    const { lines } = await planCpuMemory(specOf("mistral", weightType), 16, 1e9);
    return Number.parseFloat(/weights ([\d.]+)/.exec(lines.join("\n"))?.[1] ?? "0");
  };
  assert.ok((await bytesOf("stored")) < 0.6 * (await bytesOf(undefined)));
});

test("narrowTypeOf() takes the type of most bytes", () => {
  const tensor = (dtype: "BF16" | "F32", byteLength: number) => ({ name: dtype, dtype, shape: [1], byteLength });
  const source = (...all: ReturnType<typeof tensor>[]) => ({ tensors: new Map(all.map((one, i) => [`${i}`, one])) });
  assert.equal(narrowTypeOf(source(tensor("BF16", 100), tensor("F32", 8))), "bf16");
  assert.equal(narrowTypeOf(source(tensor("BF16", 8), tensor("F32", 100))), undefined);
});
