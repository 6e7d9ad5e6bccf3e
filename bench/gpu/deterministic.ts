/**
 * The deterministic mode on a GPU: the bits of logits of one prompt computed in several ways, for each recorded model and
 * form of weights; tokens and log-probabilities of requests alone, among others, preempted, with graphs and without; and
 * what the mode costs at the size of a real model.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { CudaRunnerOptions } from "../../server/src/engine/cuda/create-runner.ts";
import type { DecoderCudaRunner } from "../../server/src/engine/cuda/cuda-runner.ts";
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "../../server/src/engine/engine-config.ts";
import { LlmEngine } from "../../server/src/engine/llm-engine.ts";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import type { StepRunner } from "../../server/src/engine/step-runner.ts";
import { compareCourses, courseBlocks, coursesOf } from "../../server/src/engine/testing/courses.ts";
import { contiguousBlocks, stepOf, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { collectReal, lend } from "../../tests/schedules/real-model.ts";
import { createRanks } from "./ranks.ts";
import { loadSynthetic } from "./steps.ts";
import { syntheticConfig } from "./synthetic-model.ts";

type Form = Pick<CudaRunnerOptions, "type" | "cacheType" | "matrixType">;
type Tell = (line: string) => void;

const FORMS: readonly Form[] = [
  { type: "f32" },
  { type: "bf16" },
  { type: "bf16", cacheType: "e4m3", matrixType: "e4m3" },
  { type: "bf16", matrixType: "int4" },
];
const COMPANY = 63;
const MODEL_TOKENS = 40;

/** Number of rows of logits that differ, and the comparisons of requests. */
export interface DeterministicResult {
  readonly what: string;
  readonly numCompared: number;
  readonly numDifferent: number;
}

function nameOf({ type = "bf16", matrixType = type, cacheType = type }: Form): string {
  return `${type}, matrices ${matrixType}, cache ${cacheType}`;
}

function tokensFor({ vocabSize }: StepRunner, count: number): number[] {
  return Array.from({ length: count }, (_, i) => (i * 7919 + 13) % Math.min(vocabSize, 6000));
}

/** Each model of the folder in each form. */
export async function compareModels(
  folder: string,
  filter: RegExp,
  tell: Tell,
  ranks = "1x1",
): Promise<DeterministicResult[]> {
  const results: DeterministicResult[] = [];
  for (const model of readdirSync(folder).sort()) {
    if (!filter.test(model)) continue;
    for (const form of FORMS) {
      const sizes = { blockSize: 16, numBlocks: courseBlocks(8), maxTokens: 128, maxSequences: 16 };
      const modelDir = join(folder, model);
      const runner = await createRanks(ranks, { modelDir, ...sizes, ...form, isDeterministic: true });
      const courses = coursesOf(MODEL_TOKENS, runner.blockSize);
      const { numCompared, differences } = await compareCourses(runner, tokensFor(runner, MODEL_TOKENS), courses);
      await runner.close();
      results.push(said(tell, `${model}, ${nameOf(form)}`, numCompared, differences.length, differences[0]));
    }
  }
  return results;
}

function said(tell: Tell, what: string, numCompared: number, numDifferent: number, first = ""): DeterministicResult {
  tell(`${what}: ${numDifferent} of ${numCompared} differ ${first}`);
  return { what, numCompared, numDifferent };
}

interface Scenario {
  readonly name: string;
  readonly company: number;
  readonly config?: Partial<EngineConfig>;
  readonly numBlocks?: number;
}

const SCENARIOS: readonly Scenario[] = [
  { name: "alone", company: 0 },
  { name: "among 7", company: 7 },
  { name: "among 63", company: 63 },
  { name: "again, from the prefix cache and in chunks of 24", company: 3, config: { maxBatchTokens: 24 } },
  { name: "preempted", company: 15, config: { policy: "max_utilization", prefixReuse: false }, numBlocks: 24 },
];

/** Requests of every kind of choice, each alone and in every company; with `isDeterministic` false for what that differs in. */
export async function compareRequests(
  folder: string,
  form: Form,
  isDeterministic: boolean,
  tell: Tell,
  ranks = "1x1",
): Promise<DeterministicResult> {
  const golden = JSON.parse(readFileSync(join(folder, "golden_text.json"), "utf8")) as {
    readonly input_ids: number[];
  }[];
  const prompts = golden.map(({ input_ids }) => Int32Array.from(input_ids));
  const expected = new Map<number, string>();
  let [numCompared, numDifferent] = [0, 0];
  for (const usesGraphs of [true, false]) {
    const sizes = { blockSize: 16, numBlocks: 1024, maxTokens: 512, maxSequences: 64, usesGraphs };
    const modelDir = join(folder, "language_model");
    const runner = await createRanks(ranks, { modelDir, ...sizes, ...form, isDeterministic });
    for (const scenario of SCENARIOS) {
      const { outputs, preemptions } = await runScenario(runner, scenario, prompts);
      const known = [...outputs].filter(([number]) => expected.has(number));
      const wrong = known.filter(([number, output]) => expected.get(number) !== output);
      for (const [number, output] of outputs) expected.set(number, expected.get(number) ?? output);
      numCompared += known.length;
      numDifferent += wrong.length;
      const how = `${usesGraphs ? "graphs" : "no graphs"}, ${preemptions} preemptions`;
      tell(`  ${scenario.name} (${how}): ${wrong.length} of ${known.length} requests differ`);
    }
    await runner.close();
  }
  const mode = isDeterministic ? "deterministic" : "default";
  return said(tell, `requests, ${mode}, ${nameOf(form)}`, numCompared, numDifferent);
}

const KINDS: readonly Partial<GenerateRequest>[] = [
  {},
  { temperature: 0.9, topK: 0, topP: 0.95, seed: 7n },
  { temperature: 1.1, topK: 40, seed: 8n, repetitionPenalty: 1.2, frequencyPenalty: 0.1 },
];

/** The three requests that are compared come in the middle of the others. */
async function runScenario(
  runner: StepRunner,
  { company, config, numBlocks = runner.numBlocks }: Scenario,
  prompts: readonly Int32Array[],
): Promise<{ readonly outputs: ReadonlyMap<number, string>; readonly preemptions: number }> {
  const engine = new LlmEngine(lend(runner, numBlocks), { ...DEFAULT_ENGINE_CONFIG, ...config });
  const requests = KINDS.map((kind, i) => ({ ...requestOf(prompts, i), ...kind, maxTokens: 40 }));
  const others = Array.from({ length: company }, (_, i) => ({
    ...requestOf(prompts, i + 1),
    ...(i % 2 === 0 ? {} : { temperature: 1, topK: 20, seed: BigInt(i) }),
    maxTokens: 8 + ((i * 5) % 40),
  }));
  const outputs = new Map<number, string>();
  const run = async (request: GenerateRequest, number?: number): Promise<void> => {
    const { tokens, logProbs } = await collectReal(engine.generate(request));
    if (number !== undefined) outputs.set(number, JSON.stringify([tokens, logProbs]));
  };
  if (company === 0) for (const [i, request] of requests.entries()) await run(request, i);
  else {
    const before = others.slice(0, company >> 1).map((request) => run(request));
    const middle = requests.map((request, i) => run(request, i));
    await Promise.all([...before, ...middle, ...others.slice(company >> 1).map((request) => run(request))]);
  }
  const { preemptions } = engine.stats();
  await engine.close();
  return { outputs, preemptions };
}

function requestOf(prompts: readonly Int32Array[], i: number): GenerateRequest {
  return { ...NEUTRAL_REQUEST, promptTokens: prompts[i % prompts.length] ?? Int32Array.of(1), logProbs: true };
}

/** Bits at the size of a real model, and how long its steps take, logits to the host included. */
export async function compareLarge(model: string, matrixType: "bf16" | "e4m3" | "int4", tell: Tell): Promise<unknown> {
  const sizes = { maxTokens: 2048, maxSequences: COMPANY + 1, matrixType, isDeterministic: true };
  const runner = await loadSynthetic(syntheticConfig(model), sizes);
  const courses = coursesOf(48, runner.blockSize, COMPANY);
  const { numCompared, differences } = await compareCourses(runner, tokensFor(runner, 48), courses);
  const bits = said(tell, `${model}, matrices ${matrixType}`, numCompared, differences.length, differences[0]);
  const times: Record<string, number> = {};
  for (const [batch, context, length] of [
    [1, 128, 1],
    [64, 192, 1],
    [1, 0, 2048],
  ] as const) {
    const what = `${batch} x ${context === 0 ? `prefill ${length}` : context}`;
    times[what] = await medianMs(runner, batch, context, length);
    tell(`${model}, matrices ${matrixType}, ${what}: ${times[what]?.toFixed(2)} ms`);
  }
  await runner.close();
  return { ...bits, times };
}

const ROUNDS = 8;

async function medianMs(runner: DecoderCudaRunner, batch: number, context: number, length: number): Promise<number> {
  const blocks = Math.ceil((context + length) / runner.blockSize);
  const parts = Array.from({ length: batch }, (_, i) => {
    const sequence = new TestSequence(contiguousBlocks(i * blocks, blocks));
    sequence.numCached = context;
    return { sequence, tokens: tokensFor(runner, length) };
  });
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const startMs = performance.now();
    await runner.run(stepOf(runner, parts));
    if (round >= 2) times.push(performance.now() - startMs);
  }
  return times.sort((a, b) => a - b)[times.length >> 1] ?? Number.NaN;
}
