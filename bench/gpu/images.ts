/**
 * Prompts with images on GPUs: the visual tokens that were recorded with transformers take the place of tokens, which stand
 * at a time, a row and a column, and tokens and logits are compared with the recorded ones.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { promptPositions } from "../../server/src/backend/tokenizer/image-positions.ts";
import type { LlmEngine } from "../../server/src/engine/llm-engine.ts";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import { engineOf } from "../../server/src/engine/testing/generation.ts";
import { createRanks } from "./ranks.ts";

interface Numbers {
  readonly shape: readonly number[];
  readonly data: readonly number[];
}

interface Recorded {
  readonly text: string;
  readonly grids: readonly (readonly number[])[];
  readonly tokens: Numbers;
  readonly logits: Numbers;
  readonly ids: readonly number[];
}

export interface ImageResult {
  readonly model: string;
  readonly type: "f32" | "bf16";
  readonly numSame: number;
  readonly numTexts: number;
  /** Largest difference among texts that are the same. */
  readonly largestLogitDifference: number;
}

const MODELS = /^qwen2(\.5)?-vl$/;
/** Patches of a side that become one token. */
const MERGED = 2;

export async function followImages(folder: string, ranks: string): Promise<readonly ImageResult[]> {
  const results: ImageResult[] = [];
  for (const model of readdirSync(folder).filter((name) => MODELS.test(name))) {
    const modelDir = join(folder, model);
    const cases = JSON.parse(readFileSync(join(modelDir, "expected.json"), "utf8")) as readonly Recorded[];
    for (const type of ["f32", "bf16"] as const) {
      const sizes = { blockSize: 16, numBlocks: 64, maxTokens: 256, maxSequences: 4 };
      const runner = await createRanks(ranks, { modelDir, type, ...sizes });
      const engine = engineOf(runner);
      // All at once: rows of several images and of texts in one step.
      const answers = await Promise.all(cases.map((recorded) => answer(engine, recorded, runner)));
      await engine.close();
      const same = cases.flatMap(({ ids, logits }, i) => {
        const { tokens = [], rows = new Float32Array() } = answers[i] ?? {};
        return String(tokens) === String(ids) ? [maxDifference(rows, logits.data)] : [];
      });
      const largestLogitDifference = Math.max(...same);
      results.push({ model, type, numSame: same.length, numTexts: cases.length, largestLogitDifference });
    }
  }
  return results;
}

interface Answer {
  readonly tokens: readonly number[];
  readonly rows: Float32Array;
}

async function answer(
  engine: LlmEngine,
  recorded: Recorded,
  { vocabSize }: { readonly vocabSize: number },
): Promise<Answer> {
  const tokens: number[] = [];
  let rows: Float32Array = new Float32Array(0);
  for await (const chunk of engine.generate(requestOf(recorded, vocabSize))) {
    tokens.push(...chunk.tokenIds);
    rows = chunk.extras?.generationLogits ?? rows;
  }
  return { tokens, rows };
}

function requestOf({ text, grids, tokens, ids }: Recorded, vocabSize: number): GenerateRequest {
  const images = grids.map(([, rows = 0, columns = 0]) => ({ rows: rows / MERGED, columns: columns / MERGED }));
  let [image, row] = [0, 0];
  const promptTokens = Int32Array.from(
    text.split(" ").flatMap((word) => {
      if (word !== "<|image_pad|>") return [idOf(word)];
      const { rows, columns } = images[image++] ?? { rows: 0, columns: 0 };
      return Array.from({ length: rows * columns }, () => vocabSize + row++);
    }),
  );
  const plain = {
    ...NEUTRAL_REQUEST,
    promptTokens,
    maxTokens: ids.length,
    endIds: new Int32Array(0),
    generationLogits: true,
  };
  if (row === 0) return plain;
  const promptTable = { numRows: row, values: Float32Array.from(tokens.data) };
  return { ...plain, promptTable, promptPositions: promptPositions(promptTokens, vocabSize, images) };
}

/** As the recorded models' tokenizers have it. */
function idOf(word: string): number {
  if (word === "<|vision_start|>") return 91;
  return word === "<|vision_end|>" ? 92 : Number(word.slice(1));
}
