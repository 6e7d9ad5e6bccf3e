/**
 * All that the tools write is loaded and answers, for each class that they accept: checkpoints in each layout and weight type, engines
 * from checkpoints and from Hugging Face folders, quantized checkpoints. The other classes are refused by name.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { createDecoderRunner } from "@nereid/server/engine/cpu/cpu-runner";
import { append, contiguousBlocks, TestSequence } from "@nereid/server/engine/testing/sequences";
import { Reporter } from "@nereid/server/files/progress";
import { maxDifference } from "@nereid/server/kernels/testing/run-op";
import { recordedModels } from "../../tests/parity/field-changes.ts";
import { testSize } from "../../tests/support/long-tests.ts";
import { buildEngine } from "./build/build-engine.ts";
import { type ConvertOptions, convertCheckpoint } from "./checkpoint/convert-checkpoint.ts";
import { quantize } from "./quantize/quantize.ts";

const NUM_BLOCKS = 16;
const TOKENS = Array.from({ length: 20 }, (_, i) => (i * 7) % 60);
/** Largest difference of logits: what is written as f32 is the model itself; 8 and 4 bits are recorded at up to 0.08 and 0.92. */
const LOSSLESS = 1e-4;
const EIGHT_BITS = 0.2;
const FOUR_BITS = 2;

const reporter = new Reporter({ mode: "quiet", command: "build" });
const { signal } = new AbortController();
const directory = mkdtempSync(join(tmpdir(), "layouts-"));
after(() => rmSync(directory, { recursive: true }));

type Write = (modelDir: string, outputDir: string) => Promise<unknown>;

function checkpoint(tpSize: number, weightOnly?: ConvertOptions["weightOnly"]): Write {
  const mapping = { tpSize, ppSize: 1, embeddingSplit: "none" } as const;
  return (modelDir, outputDir) =>
    convertCheckpoint({ modelDir, outputDir, dtype: "auto", mapping, weightOnly, reporter, signal });
}

const engine: Write = (checkpointDir, outputDir) => {
  const buildConfig = { max_batch_size: 4 };
  const types = { weightType: "f32", floatType: "f32" } as const;
  return buildEngine({ checkpointDir, outputDir, ...types, buildConfig, reporter, signal });
};

const engineOfRanks: Write = async (modelDir, outputDir) => {
  await checkpoint(2)(modelDir, `${outputDir}-checkpoint`);
  await engine(`${outputDir}-checkpoint`, outputDir);
};

const fourBits: Write = (modelDir, outputDir) =>
  quantize({
    modelDir,
    outputDir,
    format: "int4_wo",
    dtype: "auto",
    mapping: { tpSize: 1, ppSize: 1, embeddingSplit: "none" },
    groupSize: undefined,
    isSearched: false,
    calibration: { source: "", maxTexts: 1, maxTokens: 1 },
    evaluation: undefined,
    kvCacheAlgorithm: undefined,
    device: { kind: "cpu" },
    reporter,
    signal,
  });

const LAYOUTS: readonly (readonly [name: string, write: Write, bound: number])[] = [
  ["checkpoint of one rank", checkpoint(1), LOSSLESS],
  ["checkpoint of two ranks", checkpoint(2), LOSSLESS],
  ["checkpoint with 8-bit weights", checkpoint(1, 8), EIGHT_BITS],
  ["engine of a Hugging Face folder", engine, LOSSLESS],
  ["engine of a checkpoint of two ranks", engineOfRanks, LOSSLESS],
  ["quantized to 4 bits", fourBits, FOUR_BITS],
];

async function logitsOf(modelDir: string): Promise<Float32Array> {
  const runner = await createDecoderRunner({ numBlocks: NUM_BLOCKS, blockSize: 4, numThreads: 1, modelDir });
  try {
    const sequence = new TestSequence(contiguousBlocks(0, NUM_BLOCKS));
    const [logits = new Float32Array()] = await append(runner, [{ sequence, tokens: TOKENS }]);
    return Float32Array.from(logits);
  } finally {
    await runner.close();
  }
}

/** The first recorded model of each class. */
function modelOfEachClass() {
  const byClass = new Map<string, ReturnType<typeof recordedModels>[number]>();
  for (const recorded of recordedModels()) {
    const [className = ""] = recorded.config.architectures as readonly string[];
    if (!byClass.has(className)) byClass.set(className, recorded);
  }
  return [...byClass];
}

const classes = modelOfEachClass();
const NOT_WRITTEN = /: TensorRT-LLM checkpoints and engines of this class are not written$/;
/** Every layout of every class by `npm run test:long`. */
const STRIDE = testSize(23, 1);
const cases = classes.flatMap(([className, { folder }]) =>
  LAYOUTS.map(([name, write, bound]) => ({ className, folder, name, write, bound })),
);

for (const [i, { className, folder, name, write, bound }] of cases.entries()) {
  if (i % STRIDE !== 0) continue;
  test(`${className}: ${name}`, async () => {
    const outputDir = join(directory, String(i));
    const refusal = await write(folder, outputDir).then(
      () => undefined,
      (error: unknown) => String((error as Error).message),
    );
    if (refusal !== undefined) {
      assert.match(refusal, NOT_WRITTEN);
      assert.ok(refusal.startsWith(className), refusal);
      return;
    }
    const off = maxDifference(await logitsOf(outputDir), await logitsOf(folder));
    rmSync(outputDir, { recursive: true });
    assert.ok(off < bound, `logits are off by ${off}`);
  });
}
