/** Guessed tokens on a GPU: the recorded texts with a draft model and with tokens looked up, against those without. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createCudaRunner } from "../../server/src/engine/create-cuda-runner.ts";
import type { DecoderCudaRunner } from "../../server/src/engine/decoder-cuda-runner.ts";
import { ModelDrafter } from "../../server/src/engine/speculation/model-drafter.ts";
import { engineOf, generateTokens, greedyRequest } from "../../server/src/engine/testing-generation.ts";

interface GoldenText {
  readonly input_ids: readonly number[];
  readonly output_ids: readonly number[];
}

export interface GuessResult {
  readonly type: "f32" | "bf16";
  readonly guesses: string;
  /** Texts that are as without guesses, to the last token. */
  readonly numSame: number;
  readonly numTexts: number;
  readonly numGuessed: number;
  readonly numAccepted: number;
  readonly ms: number;
}

const MAX_BATCH_TOKENS = 512;

export async function compareGuesses(folder: string, type: "f32" | "bf16"): Promise<readonly GuessResult[]> {
  const golden = JSON.parse(readFileSync(join(folder, "golden_text.json"), "utf8")) as readonly GoldenText[];
  const repeated = golden.map(({ input_ids, output_ids }) => [...input_ids, ...output_ids.slice(0, 24), ...input_ids]);
  const prompts = [...golden.map(({ input_ids }) => input_ids), ...repeated];
  const requests = prompts.map((prompt) => greedyRequest(prompt, 48));
  const open = (): Promise<DecoderCudaRunner> =>
    createCudaRunner({
      modelDir: join(folder, "language_model"),
      ...{ type, blockSize: 16, numBlocks: 512, maxTokens: MAX_BATCH_TOKENS, maxSequences: 16 },
    });
  const results: GuessResult[] = [];
  let expected: readonly (readonly number[])[] | undefined;
  for (const [guesses, maxDraftTokens, ngramSize] of [
    ["none", 0, 0],
    ["n-grams, up to 8", 8, 3],
    ["itself as draft model, up to 4", 4, 0],
  ] as const) {
    const speculation = { maxDraftTokens, ngramSize };
    const hasModel = maxDraftTokens > 0 && ngramSize === 0;
    const drafter = hasModel ? new ModelDrafter(await open(), speculation, MAX_BATCH_TOKENS) : undefined;
    const engine = engineOf(await open(), { maxSequences: 16, speculation }, { drafter });
    await generateTokens(engine, requests.slice(0, 2)); // kernels are compiled, products measured
    const startMs = performance.now();
    const texts = await generateTokens(engine, requests);
    const ms = performance.now() - startMs;
    const { draftTokens: numGuessed, acceptedDraftTokens: numAccepted } = engine.stats();
    await engine.close();
    expected ??= texts;
    const numSame = texts.filter((text, i) => String(text) === String(expected?.[i])).length;
    results.push({ type, guesses, numSame, numTexts: texts.length, numGuessed, numAccepted, ms });
  }
  return results;
}
