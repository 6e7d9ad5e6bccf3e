/**
 * Checks and measurements on a machine with a GPU: `node main.mjs <command> [flags]`. Commands: libraries, checks, golden,
 * parity, deterministic, features, engines, feature-costs, hosted, steps, mixed, sums, write, benches. `bundle.ts` packs this program with all it needs for a machine without Node.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { allCudaBenches } from "../../server/kernels/cuda-benches.ts";
import { allCudaChecks } from "../../server/kernels/cuda-checks.ts";
import type { CudaCacheType } from "../../server/src/models/cuda/pass.ts";
import type { CudaMatrixType } from "../../server/src/models/cuda/weights.ts";
import { describeCudaLibraries } from "../../server/src/native/cuda/libraries.ts";
import { compareLarge, compareModels, compareRequests } from "./deterministic.ts";
import { followEngine } from "./engines.ts";
import { showFeatures, timeFeatures } from "./features.ts";
import { followGolden } from "./golden.ts";
import { generateHosted } from "./hosted.ts";
import { runMixedSteps } from "./mixed-steps.ts";
import { followModels } from "./parity.ts";
import { measureSums } from "./rank-sums.ts";
import { createRanks, type MeasuredRunner } from "./ranks.ts";
import { describeBench, runBenches } from "./run-benches.ts";
import { runChecks } from "./run-checks.ts";
import { loadSynthetic, measureDecode, measurePrefill, type StepResult } from "./steps.ts";
import { syntheticConfig } from "./synthetic-model.ts";
import { measureThroughput } from "./throughput.ts";
import { writeSynthetic } from "./write-synthetic.ts";

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    filter: { type: "string", default: "" },
    benches: { type: "boolean", default: false },
    folder: { type: "string", default: "examples/nereid-tiny" },
    out: { type: "string", default: "" },
    decode: { type: "string", default: "1x128,64x192" },
    prefill: { type: "string", default: "1x2048" },
    /** Requests x input x output. */
    loads: { type: "string", default: "64x128x128" },
    weights: { type: "string", default: "bf16" },
    /** For `steps` without a checkpoint: experts as MXFP4. */
    mxfp4_experts: { type: "boolean", default: false },
    /** Model of `steps`: llama-8b, qwen3-30b-a3b, gpt-oss-20b or gpt-oss-120b. */
    model: { type: "string", default: "llama-8b" },
    /** Type of keys and values: bf16 or e4m3. */
    kv: { type: "string", default: "bf16" },
    models: { type: "string", default: "tests/parity/models" },
    vision: { type: "string", default: "tests/vision" },
    /** Kernels start only when the one ahead has ended. */
    strict: { type: "boolean", default: false },
    sequences: { type: "string", default: "256" },
    tokens: { type: "string", default: "8192" },
    positions: { type: "string", default: "8192" },
    /** For `steps`: the matrix of logits in FP8. */
    quantize_lm_head: { type: "boolean", default: false },
    /** GPUs that share each layer x stages, e.g. 2x1; more than one: of golden, parity, deterministic, features, steps and sums. */
    ranks: { type: "string", default: "1x1" },
    /** For `parity`: number of forms of each model. */
    forms: { type: "string", default: "5" },
    /** For `deterministic`: types of matrices at the size of --model. */
    large: { type: "string", default: "" },
    /** For `mixed`: seeds, one run each; steps of a run; most sequences, prompt and output tokens, and prompts that join a step. */
    seeds: { type: "string", default: "1,2,3,4" },
    steps: { type: "string", default: "1000" },
    mix: { type: "string", default: "64x600x256x2" },
    /** Layers of the model of `steps` and `mixed`; 0: all. */
    layers: { type: "string", default: "0" },
    /** Folder for `write`, and checkpoint of `steps`. */
    checkpoint: { type: "string", default: "" },
  },
});

function save(name: string, value: unknown): void {
  if (flags.out !== "") writeFileSync(join(flags.out, name), JSON.stringify(value, null, 1));
}

async function checks(): Promise<void> {
  const results = await runChecks(allCudaChecks, new RegExp(flags.filter));
  const failed = results.filter(({ error, maxError }) => !(error <= maxError));
  for (const { name, error, maxError, message } of failed) {
    console.log(`FAILED ${name}: ${error.toExponential(2)} > ${maxError.toExponential(1)} ${message ?? ""}`);
  }
  console.log(`${results.length - failed.length} of ${results.length} checks passed`);
  save("checks.json", results);
  if (flags.benches) benches();
}

/** Every kernel beside the rooflines of the device. */
function benches(): void {
  const result = runBenches(allCudaBenches, new RegExp(flags.filter));
  const { gbPerSecond, tflops } = result.rooflines;
  console.log(`rooflines: copy ${gbPerSecond.toFixed(0)} GB/s, bf16 GEMM ${tflops.toFixed(0)} TFLOP/s`);
  for (const bench of result.benches) console.log(describeBench(bench));
  save("benches.json", result);
}

async function golden(): Promise<void> {
  const results = [];
  for (const [type, matrixType, usesGraphs, cacheType, quantizesOutput = false] of [
    ["f32", "f32", false, "f32"],
    ["f32", "f32", true, "f32"],
    ["f32", "f32", true, "e4m3"],
    ["bf16", "bf16", false, "bf16"],
    ["bf16", "bf16", true, "bf16"],
    ["bf16", "bf16", true, "e4m3"],
    ["bf16", "e4m3", true, "bf16"],
    ["bf16", "e4m3", true, "e4m3"],
    ["bf16", "int4", true, "bf16"],
    ["bf16", "bf16", true, "bf16", true],
    ["bf16", "e4m3", true, "bf16", true],
    ["bf16", "int4", true, "bf16", true],
  ] as const) {
    const name = `${type} ${matrixType} ${cacheType}${usesGraphs ? " graphs" : ""}${quantizesOutput ? " output" : ""}`;
    if (!new RegExp(flags.filter).test(name)) continue;
    const how = { ranks: flags.ranks, quantizesOutput };
    const result = await followGolden(flags.folder, type, matrixType, usesGraphs, cacheType, how);
    console.log(JSON.stringify(result));
    results.push(result);
  }
  save("golden.json", results);
}

async function parity(): Promise<void> {
  const results = await followModels(flags.models, new RegExp(flags.filter), (line) => console.log(line), {
    ranks: flags.ranks,
    numForms: Number(flags.forms),
  });
  save("parity.json", results);
  if (results.some(({ isWithin }) => isWithin === false)) process.exitCode = 1;
}

/** Checks tiny models, requests, and the sizes of a real model for each type of matrices in --large. */
async function deterministic(): Promise<void> {
  const tell = (line: string): void => console.log(line);
  const results: unknown[] = [...(await compareModels(flags.models, new RegExp(flags.filter), tell, flags.ranks))];
  for (const form of REQUEST_FORMS) results.push(await compareRequests(flags.folder, form, true, tell, flags.ranks));
  results.push(await compareRequests(flags.folder, { type: "bf16" }, false, tell, flags.ranks));
  for (const matrices of flags.large.split(",").filter((name) => name !== "")) {
    results.push(await compareLarge(flags.model, matrices as "bf16" | "e4m3" | "int4", tell));
  }
  save("deterministic.json", results);
}

const REQUEST_FORMS = [
  { type: "f32" },
  { type: "bf16" },
  { type: "bf16", matrixType: "e4m3", cacheType: "e4m3" },
  { type: "bf16", matrixType: "int4" },
] as const;

async function hosted(): Promise<void> {
  for (const type of ["f32", "bf16"] as const) {
    const [there, here] = await generateHosted(flags.folder, type);
    console.log(`${type}: ${there} of 6 texts as recorded, ${here} with tokens chosen by the engine`);
  }
}

async function steps(): Promise<void> {
  const matrixType = flags.weights as CudaMatrixType;
  const cacheType = flags.kv as CudaCacheType;
  const maxSequences = Number(flags.sequences);
  const runner = await loadMeasured(matrixType, cacheType, maxSequences);
  const results: StepResult[] = [];
  const tell = (result: StepResult): void => {
    const { kind, batch, context, stepMs, hostMs, idleMs = 0, tokensPerSecond } = result;
    console.log(
      `${kind} ${batch} x ${context}: ${stepMs.toFixed(3)} ms, host ${hostMs.toFixed(3)} ms, idle ${(1000 * idleMs).toFixed(1)} us, ${tokensPerSecond.toFixed(0)} tok/s`,
    );
    results.push(result);
  };
  for (const [batch, context] of pairs(flags.decode)) tell(await measureDecode(runner, batch, context));
  for (const [batch, length] of pairs(flags.prefill)) tell(await measurePrefill(runner, batch, length));
  const throughputs: unknown[] = [];
  const report = (): void =>
    save(`steps-${flags.model}-${flags.weights}-${flags.kv}-${flags.ranks}.json`, {
      results,
      throughputs,
      products: Object.fromEntries(runner.gemms.measuredUs),
    });
  for (const [numRequests, inputLength, outputLength] of loads(flags.loads)) {
    const load = { numRequests, inputLength, outputLength, maxSequences, maxBatchTokens: Number(flags.tokens) };
    const result = await measureThroughput(runner, load);
    console.log(JSON.stringify(result));
    throughputs.push(result);
    report(); // what follows may be cut off
  }
  for (const [shape, { bestUs, firstUs, count }] of runner.gemms.measuredUs) {
    console.log(`GEMM ${shape}: ${bestUs.toFixed(1)} us, first suggestion ${firstUs.toFixed(1)} us of ${count}`);
  }
  report();
  await runner.close();
}

/** From files where these are named, as several GPUs need it. */
async function loadMeasured(
  matrixType: CudaMatrixType,
  cacheType: CudaCacheType,
  maxSequences: number,
): Promise<MeasuredRunner> {
  const quantizesOutput = flags.quantize_lm_head;
  const maxPositions = Number(flags.positions);
  const sizes = { matrixType, quantizesOutput, cacheType, maxSequences, maxPositions, maxTokens: Number(flags.tokens) };
  const { checkpoint: modelDir } = flags;
  if (modelDir === "") {
    const hasMxfp4Experts = flags.mxfp4_experts;
    return loadSynthetic(cutConfig(), { ...sizes, hasMxfp4Experts, overlapsLaunches: !flags.strict });
  }
  const startMs = performance.now();
  const tell = (line: string): void => console.log(line);
  const fixed = { blockSize: 32, numBlocks: 0 };
  const runner = await createRanks(flags.ranks, { modelDir, ...sizes, ...fixed, tell });
  console.log(`loaded in ${((performance.now() - startMs) / 1000).toFixed(1)} s`);
  return runner;
}

function cutConfig(): Readonly<Record<string, unknown>> {
  const config = syntheticConfig(flags.model);
  return flags.layers === "0" ? config : { ...config, num_hidden_layers: Number(flags.layers) };
}

/** Ends with the first fault. */
async function mixed(): Promise<void> {
  const [maxSequences = 64, maxPrompt = 600, maxOutput = 256, maxJoining = 2] = flags.mix.split("x").map(Number);
  const runner = await loadMeasured(flags.weights as CudaMatrixType, flags.kv as CudaCacheType, maxSequences);
  for (const seed of flags.seeds.split(",").map(Number)) {
    const load = { seed, numSteps: Number(flags.steps), maxSequences, maxPrompt, maxOutput, maxJoining };
    const { numSteps, numMixed, tokensPerSecond } = await runMixedSteps(runner, load);
    console.log(`seed ${seed}: ${numSteps} steps, ${numMixed} of them mixed, ${tokensPerSecond.toFixed(0)} tok/s`);
  }
  await runner.close();
}

async function sums(): Promise<void> {
  const [numRanks = 1] = flags.ranks.split("x").map(Number);
  const results = await measureSums(numRanks);
  for (const { way, kiB, us, isRight } of results) {
    console.log(`sum of ${kiB} KiB over ${numRanks} GPUs, ${way}: ${us.toFixed(1)} us${isRight ? "" : " WRONG"}`);
  }
  save(`sums-${numRanks}.json`, results);
}

function pairs(text: string): readonly (readonly [number, number])[] {
  return text
    .split(",")
    .filter((part) => part !== "")
    .map((part) => {
      const [a = "0", b = "0"] = part.split("x");
      return [Number(a), Number(b)] as const;
    });
}

function loads(text: string): readonly (readonly [number, number, number])[] {
  return text
    .split(",")
    .filter((part) => part !== "")
    .map((part) => {
      const [a = "0", b = "0", c = "0"] = part.split("x");
      return [Number(a), Number(b), Number(c)] as const;
    });
}

/** With ggml, which writes checkpoints: NEREID_GGML_DIR. */
async function engines(): Promise<void> {
  const result = await followEngine(flags.models, flags.ranks);
  console.log(JSON.stringify(result));
  save("engines.json", result);
}

async function features(): Promise<void> {
  const { models, folder, filter, vision, ranks } = flags;
  const adapters = "tests/parity/adapters";
  save("features.json", await showFeatures({ models, adapters, folder, filter: new RegExp(filter), vision, ranks }));
}

async function featureCosts(): Promise<void> {
  const runner = await loadSynthetic(syntheticConfig(flags.model), {
    matrixType: flags.weights as CudaMatrixType,
    ...{ maxSequences: 64, maxTokens: 4096, hostBytes: 2 ** 31, adapters: { maxBytes: 2 ** 31, maxRank: 16 } },
  });
  // Keys and values of 8 heads of 128 elements of bf16.
  const blockBytes = runner.layers.length * 2 * 1024 * 2 * runner.blockSize;
  const result = await timeFeatures(runner, pairs(flags.decode), pairs(flags.prefill), blockBytes);
  save(`feature-costs-${flags.model}-${flags.weights}.json`, result);
  await runner.close();
}

const COMMANDS: Readonly<Record<string, () => Promise<void>>> = {
  libraries: async () => console.log(describeCudaLibraries().join("\n")),
  checks,
  benches: async () => benches(),
  features,
  engines,
  "feature-costs": featureCosts,
  golden,
  parity,
  deterministic,
  hosted,
  steps,
  mixed,
  sums,
  write: () => writeSynthetic(flags.checkpoint, syntheticConfig(flags.model)),
};

for (const name of positionals) {
  const startMs = performance.now();
  console.log(`== ${name}`);
  try {
    await COMMANDS[name]?.();
  } catch (error) {
    console.log(`FAILED ${name}:`, error);
    process.exitCode = 1;
  }
  console.log(`== ${name} took ${((performance.now() - startMs) / 1000).toFixed(1)} s`);
}
