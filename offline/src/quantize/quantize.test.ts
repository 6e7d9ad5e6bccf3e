import assert from "node:assert/strict";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { createDecoderRunner } from "@nereid/server/engine/cpu/cpu-runner";
import { append, contiguousBlocks, TestSequence } from "@nereid/server/engine/testing/sequences";
import { Reporter } from "@nereid/server/files/progress";
import { openSafetensorsFile } from "@nereid/server/formats/tensors/safetensors";
import { maxDifference } from "@nereid/server/kernels/testing/run-op";
import { longTestsReason, testSize } from "../../../tests/support/long-tests.ts";
import { checkpointConfig, NOT_QUANTIZED } from "../checkpoint/checkpoint-config.ts";
import { writeCheckpoint } from "../checkpoint/checkpoint-writer.ts";
import { openDecoder } from "../checkpoint/open-decoder.ts";
import { awqScales, searchFactors } from "./awq-search.ts";
import { calibrate } from "./calibration.ts";
import { Fp8Storage } from "./fp8-storage.ts";
import { siteKey } from "./input-stats.ts";
import { quantizationOf } from "./quant-formats.ts";
import { type QuantizeOptions, quantize } from "./quantize.ts";

const MODELS = fileURLToPath(new URL("../../../tests/parity/models/", import.meta.url));
const TINY = fileURLToPath(new URL("../../../examples/nereid-tiny/language_model", import.meta.url));
const WHOLE = { tpSize: 1, ppSize: 1, embeddingSplit: "none" } as const;
const SHAPE = { numBlocks: 32, blockSize: 4, numThreads: 1 };
const reporter = new Reporter({ mode: "quiet", command: "quantize" });
const { signal } = new AbortController();
const NUM_TEXTS = testSize(2, 3);
const TOKENS = Int32Array.from({ length: 80 }, (_, i) => (i * 37) % 250);

let folder = "";
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "quantize-"));
});
after(() => rm(folder, { recursive: true }));

async function logitsOf(modelDir: string): Promise<Float32Array> {
  const runner = await createDecoderRunner({ ...SHAPE, modelDir });
  try {
    const sequence = new TestSequence(contiguousBlocks(0, SHAPE.numBlocks));
    const [logits = new Float32Array()] = await append(runner, [{ sequence, tokens: [...TOKENS] }]);
    return logits;
  } finally {
    await runner.close();
  }
}

describe("searchFactors() moves factors without changing what the model computes", () => {
  for (const name of [
    "gpt2",
    "llama-linear-bias",
    "mixtral",
    "gemma-2",
    "gemma-3",
    "qwen2-moe",
    "qwen3",
    "phi-2",
    "phi-4-mini",
    "starcoder2",
  ]) {
    test(name, async () => {
      const opened = await openDecoder(`${MODELS}${name}`);
      const stats = await calibrate(opened, [TOKENS], () => undefined);
      // Factors as large as they get: the exponent is that of plain means.
      const { factors } = await searchFactors(
        opened,
        stats,
        (matrices, seen, sharedBy) => {
          const real = awqScales(16)(matrices, seen, sharedBy);
          return { ...real, factors: real.factors.map((_, i) => 1 + ((sharedBy?.[i] ?? i) % 5) / 2) };
        },
        () => undefined,
      );
      assert.ok(factors.size >= 2);
      const { files, parsed, tensors } = opened;
      const outputDir = join(folder, name);
      const described = { source: files.config, config: parsed.config, dtype: "f32", mapping: WHOLE } as const;
      const config = checkpointConfig({ ...described, quantization: NOT_QUANTIZED });
      const job = { parsed, tensors, mapping: WHOLE, dtype: "f32", storage: undefined, factors, config } as const;
      await writeCheckpoint({ ...job, outputDir, tokenizerDir: outputDir, reporter, signal });
      await tensors.close();
      const off = maxDifference(await logitsOf(outputDir), [...(await logitsOf(`${MODELS}${name}`))]);
      assert.ok(off < 2e-5, `logits are off by ${off}`);
    });
  }
});

test("calibrate() sums up what enters each linear layer", async () => {
  const opened = await openDecoder(`${MODELS}llama-2`);
  const stats = await calibrate(opened, [TOKENS, TOKENS.subarray(0, 20)], () => undefined);
  await opened.tensors.close();
  assert.equal(stats.size, 2 * 4);
  const seen = stats.get(siteKey(1, "mlpOut"));
  assert.equal(seen?.numTokens, 100);
  assert.equal(seen?.meanAbs.length, 96);
  for (let i = 0; i < 96; i++) {
    const [mean = 0, square = 0, largest = 0] = [seen?.meanAbs[i], seen?.meanSquare[i], seen?.maxAbs[i]];
    assert.ok(mean > 0 && mean <= largest && mean * mean <= square && square <= largest * largest);
  }
});

function options(format: QuantizeOptions["format"], name: string): QuantizeOptions {
  return {
    modelDir: TINY,
    outputDir: join(folder, name),
    format,
    dtype: "auto",
    mapping: WHOLE,
    groupSize: 64,
    isSearched: true,
    calibration: { source: "built-in", maxTexts: NUM_TEXTS, maxTokens: 128 },
    evaluation: { source: "built-in", maxTexts: NUM_TEXTS },
    kvCacheAlgorithm: undefined,
    device: { kind: "cpu" },
    reporter,
    signal,
  };
}

test("quantize() as int4_awq at groups of 64 costs less perplexity than plain rounding", async () => {
  const searched = await quantize(options("int4_awq", "searched"));
  const plain = await quantize({ ...options("int4_awq", "plain"), isSearched: false });
  const [original = 0, best = 0, worst = 0] = [searched.before, searched.after, plain.after].map(
    (one) => one?.perplexity,
  );
  assert.ok(original > 1 && best > original && worst > best, `${original}, ${best}, ${worst}`);
  assert.ok(best - original < 0.6 * (worst - original), `${best - original} of ${worst - original}`);
  assert.ok((searched.search?.error ?? 1) < (searched.search?.plainError ?? 0));
});

/** Largest cost of rounding, as a factor on perplexity. */
const COSTS: readonly (readonly [format: QuantizeOptions["format"], factor: number])[] = [
  ["full_prec", 1.0001],
  ["int8_wo", 1.02],
  ["int8_sq", 1.02],
  ["fp8", 1.03],
  ["w4a8_awq", 1.1],
  ["int4_wo", 2],
];
/** Formats that no other test here reads back; all by `npm run test:long`. */
const SAMPLE: ReadonlySet<string> = new Set(["int8_sq", "w4a8_awq", "int4_wo"]);

describe("quantize() measures what its checkpoint costs, as it is read back", () => {
  for (const [format, factor] of COSTS) {
    test(`${format} over 2 by 3 ranks`, { skip: (!SAMPLE.has(format) && longTestsReason) || false }, async (t) => {
      const mapping = { tpSize: 2, ppSize: 3, embeddingSplit: "vocab" } as const;
      const { before: original, after: changed } = await quantize({ ...options(format, format), mapping });
      const ratio = (changed?.perplexity ?? 0) / (original?.perplexity ?? 1);
      t.diagnostic(`perplexity times ${ratio.toFixed(4)}`);
      assert.ok(ratio > 0.98 && ratio < factor, `perplexity times ${ratio}`);
    });
  }
});

test("fp8 keeps the matrix of logits too when asked, over 2 ranks, and it is read back", async (t) => {
  const { files, parsed, tensors } = await openDecoder(`${MODELS}llama-2`);
  const mapping = { tpSize: 2, ppSize: 1, embeddingSplit: "none" } as const;
  const original = await logitsOf(`${MODELS}llama-2`);
  const off = new Map<boolean, number>();
  for (const quantizesOutput of [false, true]) {
    const quantization = quantizationOf({ ...options("fp8", "fp8-output"), quantizesOutput });
    const described = { source: files.config, config: parsed.config, dtype: "f32", mapping, quantization } as const;
    const outputDir = join(folder, `fp8-output-${quantizesOutput}`);
    const storage = new Fp8Storage(() => undefined, quantizesOutput);
    const job = { parsed, tensors, mapping, dtype: "f32", storage, config: checkpointConfig(described) } as const;
    await writeCheckpoint({ ...job, outputDir, tokenizerDir: outputDir, reporter, signal });
    const rank = await openSafetensorsFile(join(outputDir, "rank1.safetensors"));
    assert.equal(rank.tensors.get("lm_head.weight")?.dtype, quantizesOutput ? "F8_E4M3" : "F32");
    await rank.close();
    off.set(quantizesOutput, maxDifference(await logitsOf(outputDir), [...original]));
  }
  await tensors.close();
  const [floats = 1, codes = 1] = [off.get(false), off.get(true)];
  t.diagnostic(`logits off by ${floats.toFixed(3)}, and by ${codes.toFixed(3)} with such an output`);
  assert.ok(codes !== floats && codes < 0.3, `${floats}, ${codes}`);
});

test("quantize() refuses an output that is the embedding", async () => {
  const tied = { ...options("fp8", "tied"), modelDir: `${MODELS}llama-3.2`, quantizesOutput: true };
  await assert.rejects(quantize(tied), /the output of this model is its embedding/);
});

test("quantize() of one family after the other is read back", async (t) => {
  const bound = 0.12;
  const names = ["gpt2", "mixtral", "gemma-3", "qwen2-moe", "phi-3", "phi-2", "starcoder2"];
  for (const [i, name] of names.entries()) {
    const original = await logitsOf(`${MODELS}${name}`);
    for (const format of i < testSize(2, names.length) ? (["int8_wo", "int8_sq"] as const) : (["int8_sq"] as const)) {
      const own = { ...options(format, `${name}-${format}`), modelDir: `${MODELS}${name}`, evaluation: undefined };
      await quantize({ ...own, isSearched: false });
      const off = maxDifference(await logitsOf(own.outputDir), [...original]);
      t.diagnostic(`${name} as ${format}: logits off by ${off.toFixed(3)}`);
      assert.ok(off < bound, `${name} as ${format}: logits are off by ${off}`);
    }
  }
});

test("quantize() as int4_awq is read back for each way to stack matrices", async (t) => {
  for (const name of ["gpt2", "mixtral", "phi-3", "phi-2", "starcoder2"]) {
    const own = { ...options("int4_awq", `${name}-awq`), modelDir: `${MODELS}${name}`, evaluation: undefined };
    await quantize({ ...own, isSearched: false, groupSize: 32 });
    const off = maxDifference(await logitsOf(own.outputDir), [...(await logitsOf(`${MODELS}${name}`))]);
    t.diagnostic(`${name}: logits off by ${off.toFixed(3)}`);
    assert.ok(off < 0.8, `${name}: logits are off by ${off}`);
  }
});

test("quantize() of matrices in four bits gives the same ones again", async () => {
  const first = { ...options("int4_awq", "first"), evaluation: undefined, isSearched: false };
  await quantize(first);
  const second = { ...options("int4_awq", "second"), modelDir: first.outputDir, evaluation: undefined };
  await quantize(second);
  const off = maxDifference(await logitsOf(second.outputDir), [...(await logitsOf(first.outputDir))]);
  assert.equal(off, 0, `logits are off by ${off}`);
});

test("quantize() as int8_sq names tensors as TensorRT-LLM's converters do for scales of tokens", async () => {
  const own = { ...options("int8_sq", "sq-names"), modelDir: `${MODELS}llama-2`, evaluation: undefined };
  await quantize({ ...own, isSearched: false });
  const rank = await openSafetensorsFile(join(own.outputDir, "rank0.safetensors"));
  const layer = [...rank.tensors].filter(([name]) => name.startsWith("transformer.layers.0."));
  await rank.close();
  const found = layer.map(([name, { dtype, shape }]) => `${name.slice(21)} ${dtype} ${shape.join("x")}`);
  assert.deepEqual(found.sort(), [
    "attention.dense.per_channel_scale F32 1x64",
    "attention.dense.smoother F32 1x64",
    "attention.dense.weight I8 64x64",
    "attention.qkv.per_channel_scale F32 1x192",
    "attention.qkv.weight I8 192x64",
    "input_layernorm.scale_to_int F32 1",
    "input_layernorm.weight F32 64",
    "mlp.fc.per_channel_scale F32 1x96",
    "mlp.fc.weight I8 96x64",
    "mlp.gate.per_channel_scale F32 1x96",
    "mlp.gate.weight I8 96x64",
    "mlp.proj.per_channel_scale F32 1x64",
    "mlp.proj.smoother F32 1x96",
    "mlp.proj.weight I8 64x96",
    "post_layernorm.scale_to_int F32 1",
    "post_layernorm.weight F32 64",
  ]);
});

test("quantize() says which groups do not fit, and that a tokenizer is missing", async () => {
  const copy = join(folder, "no-tokenizer");
  await cp(`${MODELS}llama-2`, copy, { recursive: true });
  await assert.rejects(quantize({ ...options("int4_awq", "none"), modelDir: copy }), /tokenizer\.json: no such file/);
  const unfit = { ...options("int4_awq", "none"), groupSize: 256, isSearched: false, evaluation: undefined };
  await assert.rejects(quantize(unfit), /384 inputs on a rank, which groups of 256 do not divide/);
});
