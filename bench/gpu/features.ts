/** Request features beside text, shown and timed: adapters, speculative decoding, the host KV cache. */
import { join } from "node:path";
import type { DecoderCudaRunner } from "../../server/src/engine/cuda/cuda-runner.ts";
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import { followAdapters, loadRandomAdapters } from "./adapters.ts";
import { compareHostKv, type HostKvResult, measureCrossing } from "./host-kv.ts";
import { generateAdapted, generateHosted } from "./hosted.ts";
import { followImages } from "./images.ts";
import { followNarrowed, lineOf } from "./parity.ts";
import { gpuRanks } from "./ranks.ts";
import { compareSpeculation, type FeatureForm, type SpeculationResult } from "./speculation.ts";
import { measureDecode, measurePrefill, type StepResult } from "./steps.ts";

export interface FeaturePlaces {
  readonly models: string;
  readonly adapters: string;
  /** Folder of a model with recorded texts. */
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
  const speculation: SpeculationResult[] = [];
  const hostKv: HostKvResult[] = [];
  for (const [type, isDeterministic] of [
    ["f32", false],
    ["bf16", false],
    ["bf16", true],
  ] as const) {
    const form = { type, isDeterministic };
    const found = await compareSpeculation(folder, form, ranks);
    for (const result of found) printSpeculation(result);
    speculation.push(...found);
    const hostKvResult = await compareHostKv(folder, form, ranks);
    printHostKv(hostKvResult);
    hostKv.push(hostKvResult);
  }
  const windows = await followNarrowed(models, ranks);
  for (const result of windows) console.log(`windows ${lineOf(result)}`);
  const images = await followImages(vision, ranks);
  for (const { model, type, numSame, numTexts, largestLogitDifference } of images) {
    const off = largestLogitDifference.toExponential(1);
    console.log(`images ${model} ${type}: ${numSame} of ${numTexts} texts as recorded, logits off ${off}`);
  }
  return { adapters: followed, speculation, hostKv, windows, images, hosted: await showHosted(places) };
}

function printSpeculation(result: SpeculationResult): void {
  const { method, numSame, numTexts, largestMargin, numDraftTokens, numAccepted } = result;
  const share = `${numAccepted} of ${numDraftTokens} draft tokens accepted`;
  const apart = numSame === numTexts ? "" : `, the others part at margins of up to ${largestMargin.toExponential(1)}`;
  console.log(`speculation ${nameOf(result)} ${method}: ${numSame} of ${numTexts} texts the same${apart}; ${share}`);
}

function printHostKv(result: HostKvResult): void {
  const { numSame, numTexts, numOffloaded, numOnboarded } = result;
  const blocks = `${numOffloaded} blocks went to the host, ${numOnboarded} came back`;
  console.log(`host KV cache ${nameOf(result)}: ${numSame} of ${numTexts} texts the same, ${blocks}`);
}

function nameOf({ type, isDeterministic }: FeatureForm): string {
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
  console.log(`hosted with a draft model and a host KV cache: ${there} and ${here} of 6 texts as recorded`);
  return { numAdapted, numAdapters, there, here };
}

type Pairs = readonly (readonly [number, number])[];

/**
 * Times a runner with room for adapters of rank 16 and with a host KV cache. `blockBytes`: size of a block of its
 * cache.
 */
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
