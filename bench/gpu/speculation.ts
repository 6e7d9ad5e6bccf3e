/** Speculative decoding on a GPU: the recorded texts with a draft model and with n-gram look-up, against those without. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createCudaRunner } from "../../server/src/engine/cuda/create-runner.ts";
import { ModelDrafter } from "../../server/src/engine/speculation/model-drafter.ts";
import type { StepRunner } from "../../server/src/engine/step-runner.ts";
import { engineOf, generateTokens, greedyRequest } from "../../server/src/engine/testing/generation.ts";
import { append, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { createRanks } from "./ranks.ts";

interface GoldenText {
  readonly input_ids: readonly number[];
  readonly output_ids: readonly number[];
}

export interface FeatureForm {
  readonly type: "f32" | "bf16";
  readonly isDeterministic: boolean;
}

export interface SpeculationResult extends FeatureForm {
  readonly method: string;
  /** Texts that are as without draft tokens, to the last token. */
  readonly numSame: number;
  readonly numTexts: number;
  /** Largest difference between the logits of the two tokens at which texts diverge. */
  readonly largestMargin: number;
  readonly numDraftTokens: number;
  readonly numAccepted: number;
}

const MAX_BATCH_TOKENS = 512;
const MAX_SEQUENCES = 16;

/** The draft model is on the first GPU. */
export async function compareSpeculation(
  folder: string,
  form: FeatureForm,
  ranks: string,
): Promise<readonly SpeculationResult[]> {
  const golden = JSON.parse(readFileSync(join(folder, "golden_text.json"), "utf8")) as readonly GoldenText[];
  const repeated = golden.map(({ input_ids, output_ids }) => [...input_ids, ...output_ids.slice(0, 24), ...input_ids]);
  const prompts = [...golden.map(({ input_ids }) => input_ids), ...repeated];
  const requests = prompts.map((prompt) => greedyRequest(prompt, 48));
  const options = {
    modelDir: join(folder, "language_model"),
    ...{ ...form, blockSize: 16, numBlocks: 512, maxTokens: MAX_BATCH_TOKENS, maxSequences: MAX_SEQUENCES },
  };
  const open = (): Promise<StepRunner> => createRanks(ranks, options);
  const results: SpeculationResult[] = [];
  let expected: readonly (readonly number[])[] = [];
  for (const [method, maxDraftTokens, ngramSize] of [
    ["none", 0, 0],
    ["n-grams, up to 8", 8, 3],
    ["itself as draft model, up to 4", 4, 0],
  ] as const) {
    const speculation = { maxDraftTokens, ngramSize };
    const hasModel = maxDraftTokens > 0 && ngramSize === 0;
    const drafter = hasModel
      ? new ModelDrafter(await createCudaRunner(options), speculation, MAX_BATCH_TOKENS)
      : undefined;
    const engine = engineOf(await open(), { maxSequences: MAX_SEQUENCES, speculation }, { drafter });
    const texts = await generateTokens(engine, requests);
    const { draftTokens: numDraftTokens, acceptedDraftTokens: numAccepted } = engine.stats();
    await engine.close();
    if (expected.length === 0) expected = texts;
    const partings = texts.flatMap((text, i) => partingOf(prompts[i] ?? [], expected[i] ?? [], text));
    const numSame = texts.length - partings.length;
    const largestMargin = await marginOf(partings, open);
    results.push({ ...form, method, numSame, numTexts: texts.length, largestMargin, numDraftTokens, numAccepted });
  }
  return results;
}

/** The point at which two texts diverge: the tokens before it, and the two tokens. */
interface Parting {
  readonly before: readonly number[];
  readonly tokens: readonly [number, number];
}

function partingOf(prompt: readonly number[], one: readonly number[], other: readonly number[]): readonly Parting[] {
  const at = one.findIndex((token, i) => token !== other[i]);
  if (at < 0) return [];
  return [{ before: [...prompt, ...one.slice(0, at)], tokens: [one[at] ?? 0, other[at] ?? 0] }];
}

async function marginOf(partings: readonly Parting[], open: () => Promise<StepRunner>): Promise<number> {
  if (partings.length === 0) return 0;
  const runner = await open();
  let largest = 0;
  for (const { before, tokens } of partings) {
    const sequence = new TestSequence(contiguousBlocks(0, 32));
    const [logits = new Float32Array()] = await append(runner, [{ sequence, tokens: before }]);
    const [one = Number.NaN, other = Number.NaN] = tokens.map((token) => logits[token]);
    largest = Math.max(largest, Math.abs(one - other));
  }
  await runner.close();
  return largest;
}
