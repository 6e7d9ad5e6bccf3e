/**
 * Every recorded tiny model of each architecture on a GPU: the whole prompt, then token after token, against the recorded
 * logits and tokens. Models that GPUs do not take are listed with the reason.
 */
import { readdirSync, readFileSync } from "node:fs";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import type { CudaRunnerOptions } from "../../server/src/engine/cuda/create-runner.ts";
import { append, argmax, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { createRanks, type MeasuredRunner } from "./ranks.ts";

/** The recording of a model. */
export interface Expected {
  readonly prompt: readonly number[];
  readonly greedy?: readonly number[];
  /** From which each greedy token was taken; one row where only the prompt was computed. */
  readonly logits: readonly number[] | readonly (readonly number[])[];
}

interface Form {
  readonly type: "f32" | "bf16";
  readonly cacheType: "f32" | "bf16" | "f16" | "e4m3";
  /** Type of layer matrices; undefined: INT4 if the files have it. */
  readonly matrixType?: "int4";
  /** On the largest difference of logits; where all is exact also the tokens must be those recorded. */
  readonly bound: number;
}

export interface ParityResult extends Form {
  readonly model: string;
  readonly largestLogitDifference?: number;
  /** Wrong tokens of all steps, each after the recorded tokens. */
  readonly numWrong?: number;
  readonly numSteps?: number;
  readonly isWithin?: boolean;
  readonly refusal?: string;
}

const FORMS: readonly Form[] = [
  { type: "f32", cacheType: "f32", bound: 2e-3 },
  { type: "bf16", cacheType: "bf16", bound: 6e-2 },
  { type: "bf16", cacheType: "e4m3", bound: Number.POSITIVE_INFINITY },
  { type: "bf16", cacheType: "bf16", matrixType: "int4", bound: Number.POSITIVE_INFINITY },
  { type: "bf16", cacheType: "f16", bound: 6e-2 },
];
const NUM_BLOCKS = 8;
/** Some models turn sequences otherwise that are served up to another length. */
const MAX_POSITIONS: ReadonlyMap<string, number> = new Map([["phi-3-longrope-short", 64]]);

export async function followModels(
  folder: string,
  filter: RegExp,
  tell: (line: string) => void,
  { ranks = "1x1", numForms = FORMS.length }: { readonly ranks?: string; readonly numForms?: number } = {},
): Promise<readonly ParityResult[]> {
  const results: ParityResult[] = [];
  for (const model of readdirSync(folder).sort()) {
    if (!filter.test(model)) continue;
    for (const form of FORMS.slice(0, numForms)) {
      const result = {
        model,
        ...form,
        ...(await followOrRefusal(join(folder, model), MAX_POSITIONS.get(model), form, ranks)),
      };
      tell(lineOf(result));
      results.push(result);
    }
  }
  return results;
}

export function readExpected(modelDir: string): Expected {
  return JSON.parse(readFileSync(join(modelDir, "expected.json"), "utf8")) as Expected;
}

async function followOrRefusal(
  modelDir: string,
  maxPositions: number | undefined,
  { type, cacheType, matrixType, attentionWindows, bound }: Form & Pick<CudaRunnerOptions, "attentionWindows">,
  ranks: string,
): Promise<Partial<ParityResult>> {
  const expected = readExpected(modelDir);
  let runner: MeasuredRunner;
  try {
    const sizes = { blockSize: 16, numBlocks: NUM_BLOCKS + 1, maxTokens: 128, maxSequences: 4 };
    runner = await createRanks(ranks, {
      ...{ modelDir, type, cacheType, matrixType, attentionWindows, maxPositions },
      ...sizes,
    });
  } catch (error) {
    return { refusal: error instanceof Error ? error.message : String(error) };
  }
  try {
    const followed = await follow(runner, expected);
    const isExact = type === "f32" && cacheType === "f32";
    const isWithin = followed.largestLogitDifference < bound && !(isExact && followed.numWrong > 0);
    return { ...followed, isWithin };
  } catch (error) {
    return { isWithin: false, refusal: `while running: ${error instanceof Error ? error.message : String(error)}` };
  } finally {
    await runner.close();
  }
}

/** A recorded model with a window whose config has lost it: the window is given as a parameter. */
export async function followNarrowed(folder: string, ranks: string): Promise<readonly ParityResult[]> {
  const [model, window] = ["mistral", 16];
  const modelDir = await mkdtemp(join(tmpdir(), "narrowed-"));
  try {
    await cp(join(folder, model), modelDir, { recursive: true });
    const config = JSON.parse(readFileSync(join(modelDir, "config.json"), "utf8")) as { sliding_window: unknown };
    if (config.sliding_window !== window) throw new Error(`${model}: expected a window of ${window} keys`);
    await writeFile(join(modelDir, "config.json"), JSON.stringify({ ...config, sliding_window: null }));
    const results: ParityResult[] = [];
    for (const form of FORMS.filter(({ cacheType, type }) => cacheType === type || cacheType === "f16").slice(0, 4)) {
      const followed = await followOrRefusal(modelDir, undefined, { ...form, attentionWindows: [window] }, ranks);
      results.push({ model: `${model} narrowed`, ...form, ...followed });
    }
    return results;
  } finally {
    await rm(modelDir, { recursive: true });
  }
}

export async function follow(
  runner: MeasuredRunner,
  { prompt, greedy = [], logits }: Expected,
): Promise<Required<Pick<ParityResult, "largestLogitDifference" | "numWrong" | "numSteps">>> {
  const sequence = new TestSequence(contiguousBlocks(1, NUM_BLOCKS));
  let [largestLogitDifference, numWrong] = [0, 0];
  const rows = rowsOf(logits);
  for (const [step, recorded] of rows.entries()) {
    const tokens = step === 0 ? prompt : greedy.slice(step - 1, step);
    const [actual = new Float32Array()] = await append(runner, [{ sequence, tokens }]);
    largestLogitDifference = Math.max(largestLogitDifference, maxDifference(actual, recorded));
    if (argmax(actual) !== argmax(Float32Array.from(recorded))) numWrong += 1;
  }
  return { largestLogitDifference, numWrong, numSteps: rows.length };
}

function rowsOf(logits: Expected["logits"]): readonly (readonly number[])[] {
  return (typeof logits[0] === "number" ? [logits] : logits) as readonly (readonly number[])[];
}

export function lineOf({ model, type, cacheType, matrixType, refusal, ...result }: ParityResult): string {
  const start = `${model.padEnd(22)} ${type.padEnd(4)} cache ${cacheType.padEnd(4)} matrices ${(matrixType ?? "as stored").padEnd(9)}`;
  if (refusal !== undefined) return `${start} ${refusal}`;
  const { largestLogitDifference = Number.NaN, numWrong = 0, numSteps = 0, isWithin } = result;
  const off = largestLogitDifference.toExponential(1);
  return `${start} off ${off}, ${numWrong} of ${numSteps} tokens differ${isWithin === true ? "" : " FAILED"}`;
}
