/** Decodes recorded texts of a model on a GPU, and compares tokens and logits with those of the recording. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { ElemType } from "../../server/kernels/cuda/launch-args.ts";
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import { LlmEngine } from "../../server/src/engine/llm-engine.ts";
import { type GeneratedChunk, NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import { append, argmax, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import type { CudaCacheType } from "../../server/src/models/cuda/pass.ts";
import type { CudaMatrixType } from "../../server/src/models/cuda/weights.ts";
import { createRanks, type MeasuredRunner } from "./ranks.ts";

interface GoldenText {
  readonly input_ids: readonly number[];
  readonly output_ids: readonly number[];
  readonly top5: readonly (readonly (readonly [id: number, logit: number])[])[];
}

export interface GoldenResult {
  readonly type: ElemType;
  readonly matrixType: CudaMatrixType;
  readonly cacheType: CudaCacheType;
  readonly usesGraphs: boolean;
  readonly quantizesOutput: boolean;
  readonly numSteps: number;
  readonly numWrong: number;
  readonly largestLogitDifference: number;
  readonly numGraphs: number;
  /**
   * Texts of the engine's own generation that equal the recording to the last token; tokens are chosen on the device.
   */
  readonly numSameTexts: number;
}

const BLOCKS = 20;

/** All texts side by side: prompts in one ragged step, then one token each a step. */
export async function followGolden(
  folder: string,
  type: ElemType,
  matrixType: CudaMatrixType,
  usesGraphs: boolean,
  cacheType: CudaCacheType = type,
  { ranks = "1x1", quantizesOutput = false } = {},
): Promise<GoldenResult> {
  const golden = JSON.parse(readFileSync(join(folder, "golden_text.json"), "utf8")) as readonly GoldenText[];
  const runner = await createRanks(ranks, {
    modelDir: join(folder, "language_model"),
    type,
    matrixType,
    quantizesOutput,
    cacheType,
    usesGraphs,
    blockSize: 16,
    numBlocks: 256,
    maxTokens: 512,
    maxSequences: 16,
  });
  const followed = await follow(runner, golden);
  const { numGraphs } = runner;
  const numSameTexts = await generate(runner, golden);
  return { type, matrixType, cacheType, usesGraphs, quantizesOutput, ...followed, numGraphs, numSameTexts };
}

/** Closes the runner. */
async function generate(runner: MeasuredRunner, golden: readonly GoldenText[]): Promise<number> {
  const engine = new LlmEngine(runner, { ...DEFAULT_ENGINE_CONFIG, maxSequences: 16 });
  const same = await Promise.all(
    golden.map(async ({ input_ids, output_ids }) => {
      const request = { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(input_ids), maxTokens: output_ids.length };
      return String(await collect(engine.generate(request))) === String(output_ids);
    }),
  );
  await engine.close();
  return same.filter(Boolean).length;
}

async function collect(chunks: AsyncIterable<GeneratedChunk>): Promise<number[]> {
  const tokens: number[] = [];
  for await (const chunk of chunks) tokens.push(...chunk.tokenIds);
  return tokens;
}

async function follow(
  runner: MeasuredRunner,
  golden: readonly GoldenText[],
): Promise<Pick<GoldenResult, "numSteps" | "numWrong" | "largestLogitDifference">> {
  const sequences = golden.map((_, i) => new TestSequence(contiguousBlocks(BLOCKS * i, BLOCKS)));
  const longest = Math.max(...golden.map(({ output_ids }) => output_ids.length));
  let [numSteps, numWrong, off] = [0, 0, 0];
  for (let step = 0; step < longest; step++) {
    const active = golden.flatMap((text, i) => (step < text.output_ids.length ? [{ text, i }] : []));
    const rows = await append(
      runner,
      active.map(({ text, i }) => ({
        sequence: sequences[i] ?? new TestSequence([]),
        tokens: step === 0 ? text.input_ids : [text.output_ids[step - 1] ?? 0],
      })),
    );
    for (const [row, { text }] of active.entries()) {
      const logits = rows[row] ?? new Float32Array();
      for (const [id, logit] of text.top5[step] ?? [])
        off = Math.max(off, Math.abs((logits[id] ?? Number.NaN) - logit));
      numSteps += 1;
      if (argmax(logits) !== text.output_ids[step]) numWrong += 1;
    }
  }
  return { numSteps, numWrong, largestLogitDifference: off };
}
