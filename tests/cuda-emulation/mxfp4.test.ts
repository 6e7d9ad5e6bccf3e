/** A gpt-oss with experts in MXFP4 on an emulated GPU: as codes, and as the bf16 that they stand for exactly. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { type CudaRunnerOptions, loadCudaRunner } from "../../server/src/engine/cuda/create-runner.ts";
import { append, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { openGptOssExperts } from "../../server/src/formats/quantized/gpt-oss-experts.ts";
import type { StoredTensor, TensorSource } from "../../server/src/formats/tensors/tensor-source.ts";
import { parseDecoderConfig } from "../../server/src/models/config/parse-decoder-config.ts";
import { planCudaWeights } from "../../server/src/models/cuda/weights.ts";
import { describeWeights } from "../../server/src/models/weights/weight-plan.ts";
import { createRandom } from "../support/random.ts";
import { hostCompiler } from "./compile-emulation.ts";
import { EmulatedGpu } from "./emulated-gpu.ts";

const compiler = hostCompiler();
const SHAPE = { hidden_size: 64, intermediate_size: 96, head_dim: 16, sliding_window: 8 };
const TINY = new URL("../parity/architectures/gpt-oss/config.json", import.meta.url);
const parsed = parseDecoderConfig({
  config: { ...JSON.parse(readFileSync(TINY, "utf8")), ...SHAPE },
  generation: undefined,
  at: { config: "tiny", generation: "tiny" },
});

/** The files' tensors: experts as blocks with scales, all others as random floats. */
function randomFiles(): TensorSource {
  const random = createRandom(5);
  const contents = new Map<string, Uint8Array>();
  const tensors = new Map<string, StoredTensor>();
  const add = (name: string, dtype: "F32" | "U8", shape: readonly number[], bytes: Uint8Array): void => {
    contents.set(name, bytes);
    tensors.set(name, { name, dtype, shape, byteLength: bytes.length });
  };
  const bytesOf = (count: number, first: number, end: number): Uint8Array =>
    Uint8Array.from({ length: count }, () => first + Math.floor(random.next() * (end - first)));
  const { stackedExperts: experts } = parsed.weights;
  describeWeights(parsed.config, { ...parsed.weights, ...(experts && { experts }) }, "model.", (plan) => {
    for (const { name, shape } of plan.sources) {
      const count = shape.reduce((product, size) => product * size, 1);
      const [experts = 0, rows = 0, inputs = 0] = shape;
      const module = name.replace(/\.(weight|bias)$/, "");
      if (module.includes(".experts.") && shape.length === 3) {
        add(`${module}_blocks`, "U8", [experts, rows, inputs / 32, 16], bytesOf(count / 2, 0, 256));
        add(`${module}_scales`, "U8", [experts, rows, inputs / 32], bytesOf(count / 32, 121, 125));
        continue;
      }
      const floats = Float32Array.from(
        { length: count },
        () => (2 * random.next() - 1) / 4 + (shape.length === 1 ? 1 : 0),
      );
      add(module.includes(".experts.") ? `${module}_bias` : name, "F32", shape, new Uint8Array(floats.buffer));
    }
  });
  const read: TensorSource["read"] = async (name, into, byteOffset = 0) => {
    into.set(contents.get(name)?.subarray(byteOffset, byteOffset + into.length) ?? []);
  };
  return openGptOssExperts({ tensors, read, close: () => Promise.resolve() });
}

async function logitsOf(matrixType: CudaRunnerOptions["matrixType"]): Promise<Float32Array[]> {
  const sizes = { blockSize: 16, numBlocks: 8, maxTokens: 64, maxSequences: 4, usesGraphs: false } as const;
  const options = { ...sizes, type: "bf16", matrixType, beside: undefined } as const;
  const runner = await loadCudaRunner(new EmulatedGpu(compiler).asDevice(), parsed, randomFiles(), options);
  const sequence = new TestSequence(contiguousBlocks(1, 4));
  const rows: Float32Array[] = [];
  const tokens = Array.from({ length: 24 }, (_, i) => (7 * i) % runner.vocabSize);
  for (const step of [tokens.slice(0, 20), ...tokens.slice(20).map((token) => [token])])
    rows.push(...(await append(runner, [{ sequence, tokens: step }])));
  await runner.close();
  return rows;
}

test("experts in MXFP4 give the logits of the numbers that they stand for on an emulated GPU", {
  skip: compiler.reason ?? false,
}, async () => {
  const { placed } = planCudaWeights(parsed, randomFiles(), "bf16");
  const types = placed.filter(({ shape }) => shape.length === 3).map(({ type }) => type);
  assert.deepEqual([...new Set(types)], ["mxfp4"]);
  const [codes, floats] = [await logitsOf(undefined), await logitsOf("bf16")];
  const size = Math.max(...floats.flatMap((row) => [...row].map(Math.abs)));
  const off = Math.max(...codes.map((row, i) => maxDifference(row, floats[i] ?? [])));
  assert.ok(size > 0 && off < 0.02 * size, `${off} of ${size}`);
});
