/** What requests may ask for beside text, shown and timed: adapters, guesses, blocks that come back from the host's memory. */
import { join } from "node:path";
import type { DecoderCudaRunner } from "../../server/src/engine/cuda/cuda-runner.ts";
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import { followAdapters, loadRandomAdapters } from "./adapters.ts";
import { compareGuesses, type GuessForm, type GuessResult } from "./guesses.ts";
import { generateAdapted, generateHosted } from "./hosted.ts";
import { followImages } from "./images.ts";
import { followNarrowed, lineOf } from "./parity.ts";
import { gpuRanks } from "./ranks.ts";
import { measureDecode, measurePrefill, type StepResult } from "./steps.ts";
import { compareTiers, measureCrossing, type TierResult } from "./tiers.ts";

export interface FeaturePlaces {
  readonly models: string;
  readonly adapters: string;
  /** Of a model with recorded texts. */
  readonly folder: string;
  readonly filter: RegExp;
  /** Models that see. */
  readonly vision: string;
  /** GPUs that share each layer x stages. */
  readonly ranks: string;
}

export async function showFeatures(places: FeaturePlaces): Promise<object> {
  const { models, adapters, folder, filter, vision, ranks } = places;
  const followed = await followAdapters(models, adapters, filter, ranks);
  for (const { model, type, usesGraphs, numAdapters, aloneOff, togetherOff, numWrong, numSteps } of followed) {
    const how = `${model.padEnd(10)} ${type.padEnd(4)} ${usesGraphs ? "graphs" : "      "}`;
    const off = `off ${aloneOff.toExponential(1)} alone, ${togetherOff.toExponential(1)} in one batch`;
    console.log(`adapters ${how} ${numAdapters} adapters: ${off}; ${numWrong} of ${numSteps} tokens differ`);
  }
  const guesses: GuessResult[] = [];
  const tiers: TierResult[] = [];
  for (const [type, isDeterministic] of [
    ["f32", false],
    ["bf16", false],
    ["bf16", true],
  ] as const) {
    const form = { type, isDeterministic };
    const guessed = await compareGuesses(folder, form, ranks);
    for (const result of guessed) tellGuesses(result);
    guesses.push(...guessed);
    const tier = await compareTiers(folder, form, ranks);
    tellTiers(tier);
    tiers.push(tier);
  }
  const windows = await followNarrowed(models, ranks);
  for (const result of windows) console.log(`windows ${lineOf(result)}`);
  const images = await followImages(vision, ranks);
  for (const { model, type, numSame, numTexts, largestLogitDifference } of images) {
    const off = largestLogitDifference.toExponential(1);
    console.log(`images ${model} ${type}: ${numSame} of ${numTexts} texts as recorded, logits off ${off}`);
  }
  return { adapters: followed, guesses, tiers, windows, images, hosted: await showHosted(places) };
}

function tellGuesses(result: GuessResult): void {
  const { guesses, numSame, numTexts, largestMargin, numGuessed, numAccepted } = result;
  const share = `${numAccepted} of ${numGuessed} guesses came true`;
  const apart = numSame === numTexts ? "" : `, the others part at margins of up to ${largestMargin.toExponential(1)}`;
  console.log(`guesses ${nameOf(result)} ${guesses}: ${numSame} of ${numTexts} texts the same${apart}; ${share}`);
}

function tellTiers(result: TierResult): void {
  const { numSame, numTexts, numOffloaded, numOnboarded } = result;
  const blocks = `${numOffloaded} blocks went to the host, ${numOnboarded} came back`;
  console.log(`tiers ${nameOf(result)}: ${numSame} of ${numTexts} texts the same, ${blocks}`);
}

function nameOf({ type, isDeterministic }: GuessForm): string {
  return `${type}${isDeterministic ? " deterministic" : ""}`;
}

/** The same by way of an engine in a process of its own, as a server has it. */
async function showHosted({ models, adapters: root, folder, ranks }: FeaturePlaces): Promise<object> {
  const [modelDir, adapters] = [join(models, "llama-3.2"), join(root, "llama-3.2")];
  const gpu = { ordinal: 0, matrices: undefined, ranks: gpuRanks(ranks) };
  const [numAdapted, numAdapters] = await generateAdapted(modelDir, adapters, join(root, "../tasks"), gpu);
  console.log(`hosted: ${numAdapted} of ${numAdapters} texts with adapters as recorded`);
  const speculation = { maxDraftTokens: 4, ngramSize: 0 };
  const kvCache = {
    ...{ type: undefined, bytes: 0, freeFraction: undefined, attentionWindows: [] },
    hostBytes: 2 ** 28,
  };
  const [there, here] = await generateHosted(folder, "f32", {
    gpu,
    ...{ engine: { ...DEFAULT_ENGINE_CONFIG, speculation }, draftModelDir: join(folder, "language_model"), kvCache },
  });
  console.log(`hosted with a draft model and a second tier: ${there} and ${here} of 6 texts as recorded`);
  return { numAdapted, numAdapters, there, here };
}

type Pairs = readonly (readonly [number, number])[];

/** Of a runner with room for adapters of rank 16 and with a second tier; `blockBytes`: of a block of its cache. */
export async function timeFeatures(
  runner: DecoderCudaRunner,
  decode: Pairs,
  prefill: Pairs,
  blockBytes: number,
): Promise<object> {
  const startMs = performance.now();
  const ids = await loadRandomAdapters(runner, 8, 16);
  console.log(`8 adapters of rank 16 in ${((performance.now() - startMs) / 1000).toFixed(1)} s`);
  const costs: unknown[] = [];
  for (const [name, some] of [
    ["none", []],
    ["one adapter", ids.slice(0, 1)],
    ["8 adapters", ids],
  ] as const) {
    const steps: StepResult[] = [];
    for (const [batch, context] of decode) steps.push(await measureDecode(runner, batch, context, 24, some));
    for (const [batch, length] of prefill) steps.push(await measurePrefill(runner, batch, length, 5, some));
    for (const { kind, batch, context, stepMs, hostMs } of steps) {
      console.log(`${kind} ${batch} x ${context}, ${name}: ${stepMs.toFixed(3)} ms, host ${hostMs.toFixed(3)} ms`);
    }
    costs.push({ name, steps });
  }
  const crossing = await measureCrossing(runner, blockBytes);
  console.log(JSON.stringify(crossing));
  return { costs, crossing };
}
