/** Tree models that their own libraries have trained, with the answers of these libraries. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Backend } from "../../server/src/backend/backend.ts";
import { floatsOf, floatTensor, type LoadedInstance, loadInstance } from "./run-instance.ts";

/** The smallest set, and all that `train.py` knows. */
export const XGBOOST_ONLY: readonly string[] = ["numpy", "xgboost-cpu==3.2.0"];
export const ALL_LIBRARIES: readonly string[] = [
  ...XGBOOST_ONLY,
  "lightgbm==4.7.0",
  "treelite==4.8.1",
  "scikit-learn==1.9.1",
];
/** Name of the environment with them, for `pythonVenv`. */
export const TREES_VENV = "trees";
export const NUM_FEATURES = 6;

const SCRIPT = fileURLToPath(new URL("../trees/train.py", import.meta.url));
const TRAINING_TIMEOUT_MS = 600_000;
const run = promisify(execFile);

export interface TreeCase {
  readonly config: string;
  /** [rows, NUM_FEATURES]; NaN is missing. */
  readonly rows: Float32Array;
  /** By output, in the order of the rows. */
  readonly expected: ReadonlyMap<string, readonly number[]>;
}

/** Trains the named models, or all; each is a folder of a model repository. */
export async function trainTrees(python: string, folder: string, names: readonly string[] = []): Promise<void> {
  await run(python, [SCRIPT, folder, ...names], { timeout: TRAINING_TIMEOUT_MS });
}

export async function readTreeCase(folder: string): Promise<TreeCase> {
  const config = await readFile(join(folder, "config.pbtxt"), "utf8");
  const { rows, expected } = JSON.parse(await readFile(join(folder, "case.json"), "utf8")) as {
    readonly rows: readonly (number | null)[];
    readonly expected: Readonly<Record<string, readonly number[]>>;
  };
  return {
    config,
    rows: Float32Array.from(rows, (value) => value ?? Number.NaN),
    expected: new Map(Object.entries(expected)),
  };
}

/** Numbers that differ by more than `tolerance`, of 1 or of the larger number, whichever is more. */
export function differences(actual: ArrayLike<number>, expected: ArrayLike<number>, tolerance: number): string[] {
  const found: string[] = [];
  if (actual.length !== expected.length) found.push(`${actual.length} values, expected ${expected.length}`);
  for (let index = 0; index < expected.length; index++) {
    const [got = Number.NaN, want = Number.NaN] = [actual[index], expected[index]];
    if (!(Math.abs(got - want) <= tolerance * Math.max(1, Math.abs(want))))
      found.push(`${index}: ${got}, expected ${want}`);
  }
  return found;
}

/** Compares all outputs, of all rows at once and of the first alone. */
export async function expectEqualAnswers(backend: Backend, folder: string, tolerance: number): Promise<void> {
  const { config, rows, expected } = await readTreeCase(folder);
  await using loaded = await loadInstance(backend, config, folder);
  const numRows = rows.length / NUM_FEATURES;
  for (const count of [numRows, 1]) {
    const outputs = await loaded.run([
      floatTensor("input__0", [count, NUM_FEATURES], rows.subarray(0, count * NUM_FEATURES)),
    ]);
    assert.deepEqual([...outputs.keys()], [...expected.keys()]);
    for (const [name, values] of expected) {
      const wanted = values.slice(0, (values.length / numRows) * count);
      assert.deepEqual(differences(floatsOf(outputs.get(name)), wanted, tolerance), [], `${name} of ${count} rows`);
    }
  }
}

/** The process's environment, with the interpreter whose packages have the libraries. */
export function environmentOf(python: string): NodeJS.ProcessEnv {
  return { ...process.env, NEREID_PYTHON: python };
}

export type { LoadedInstance };
