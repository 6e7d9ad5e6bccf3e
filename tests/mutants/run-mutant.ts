/** Runs test files with one protection taken out by the loader (`tools/loader`); the sources stay as they are. */
import { spawn } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { LOADER_FLAGS } from "../support/source-loader.ts";
import type { Mutant } from "./mutant.ts";

export const ROOT: string = fileURLToPath(new URL("../../", import.meta.url));
/** Ends what hangs without its protection; that counts as noticed. */
const LIMIT_MS = 120_000;
const MAX_OUTPUT_CHARS = 4_000_000;
const FAILED_TEST = /^ *not ok \d+ - (.*)$/m;

export interface TestRun {
  readonly passed: boolean;
  /** The first test that failed, or how the run ended otherwise. */
  readonly failure: string;
}

/** Runs the tests of a mutant until one notices it. */
export async function runMutant(mutant: Mutant): Promise<TestRun> {
  const { from, to } = mutant;
  const env = { NEREID_TEST_MUTANT: JSON.stringify({ file: `${ROOT}${mutant.file}`, from, to }) };
  for (const file of mutant.tests) {
    const run = await runTests(file, env);
    if (!run.passed) return run;
  }
  return { passed: true, failure: "" };
}

/** Runs one test file. */
export function runTests(file: string, env: NodeJS.ProcessEnv = {}): Promise<TestRun> {
  const args = ["--conditions=nereid-source", ...LOADER_FLAGS, "--test-reporter=tap", file];
  const own = { ...process.env, ...env };
  // Set by a runner around this one: the test file is to run by itself.
  delete own.NODE_TEST_CONTEXT;
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: own,
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      if (output.length < MAX_OUTPUT_CHARS) output += text;
    });
  }
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    killGroup(child.pid);
  }, LIMIT_MS);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      clearTimeout(timer);
      killGroup(child.pid);
      if (code === 0) resolve({ passed: true, failure: "" });
      else if (isLate) resolve({ passed: false, failure: `${file}: no end within ${LIMIT_MS / 1000} s` });
      else resolve({ passed: false, failure: `${file}: ${failureOf(output, signal ?? `exit ${code}`)}` });
    });
  });
}

/** The name of a failed test; a file that fails outside of its tests has only its end. */
function failureOf(output: string, end: string): string {
  return FAILED_TEST.exec(output)?.[1] ?? `${end}: ${output.slice(-300)}`;
}

/** With what the tests have started. */
function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // All have ended.
  }
}
