/**
 * Readers of untrusted bytes with broken inputs (`tests/fuzz`), each in a process of its own for its share of the time: no error of
 * the engine, no hang, no crash, and heap and descriptors that stay where they were.
 */
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { FuzzMessage, FuzzProgress } from "../fuzz/fuzz-messages.ts";
import { FUZZ_TARGETS } from "../fuzz/targets.ts";
import { LOADER_FLAGS } from "../support/source-loader.ts";
import { slopePer } from "./slope.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const WORKER = fileURLToPath(new URL("../fuzz/fuzz-worker.ts", import.meta.url));
/** A report comes every second; a machine with other work may be much slower. */
const HANG_MS = 120_000;
/** Old generation of a process: a case that needs more ends it. */
const MAX_HEAP_MB = 512;
/** Caches fill in the first part. */
const WARM_UP_SHARE = 0.3;
const MAX_HEAP_GROWTH_BYTES = 16 * 1024 * 1024;

export const decodersSoak: Soak = { name: "decoders", run };

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const outcomes: [string, number][] = [];
  let cases = 0;
  for (const [i, { name }] of FUZZ_TARGETS.entries()) {
    const shareMs = (deadlineMs - performance.now()) / (FUZZ_TARGETS.length - i);
    const reports = await runTarget(name, seed, shareMs);
    const result = judge(name, reports);
    outcomes.push(...Object.entries(result).map(([key, value]): [string, number] => [`${name} ${key}`, value]));
    cases += result.cases;
    process.stdout.write(`${name}: ${JSON.stringify(result)}\n`);
  }
  return { cases, ...Object.fromEntries(outcomes) };
}

/** @throws Error with the fault; AssertionError when the process died or stood still */
async function runTarget(name: string, seed: number, timeMs: number): Promise<readonly FuzzProgress[]> {
  const execArgv = [
    "--expose-gc",
    `--max-old-space-size=${MAX_HEAP_MB}`,
    "--conditions=nereid-source",
    ...LOADER_FLAGS,
  ];
  const child = fork(WORKER, [name, String(seed), "0"], { execArgv });
  const reports: FuzzProgress[] = [];
  let fault: string | undefined;
  let lastMs = performance.now();
  child.on("message", (message: FuzzMessage) => {
    lastMs = performance.now();
    if (message.kind === "fault") fault = message.text;
    else reports.push(message);
  });
  const ended = new Promise<string>((resolve) => {
    child.once("exit", (code, signal) => resolve(`exit code ${code}, signal ${signal}`));
  });
  const endMs = performance.now() + timeMs;
  let how: string | undefined;
  while (how === undefined && performance.now() < endMs && performance.now() - lastMs < HANG_MS)
    how = await Promise.race([ended, wait()]);
  const isHung = performance.now() - lastMs >= HANG_MS;
  child.kill("SIGKILL");
  await ended;
  const done = reports.at(-1)?.cases ?? 0;
  if (fault !== undefined) throw new Error(fault);
  assert.equal(how, undefined, `${name}, seed ${seed}: the process died after case ${done}: ${how}`);
  assert.ok(!isHung, `${name}, seed ${seed}: no report for ${HANG_MS / 1000} s after case ${done}`);
  return reports;
}

function wait(): Promise<undefined> {
  return new Promise((resolve) => setTimeout(() => resolve(undefined), 200));
}

function judge(name: string, reports: readonly FuzzProgress[]): Record<"cases", number> & SoakResult {
  const steady = reports.slice(Math.floor(reports.length * WARM_UP_SHARE));
  const [first, last] = [steady[0], steady.at(-1)];
  assert.ok(first !== undefined && last !== undefined, `${name}: no report`);
  const heap = (report: FuzzProgress): number => report.heapBytes + report.externalBytes;
  const growth = heap(last) - heap(first);
  assert.ok(growth < MAX_HEAP_GROWTH_BYTES, `${name}: ${growth} bytes more after ${last.cases - first.cases} cases`);
  assert.equal(last.descriptors, first.descriptors, `${name}: descriptors`);
  const heapBytesPerMillion = slopePer(
    1e6,
    steady.map((report) => [report.cases, heap(report)]),
  );
  const slowestMs = Math.round(last.slowestMs);
  return { cases: last.cases, refused: last.refused, slowestMs, heapBytesPerMillion, descriptors: last.descriptors };
}
