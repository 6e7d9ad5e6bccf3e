/** Runs cases of one target and judges what leaves its reader. Knows no process and no clock but that of a case. */
import process from "node:process";
import { drawCase, type FuzzTarget } from "./fuzz-target.ts";

const SHOWN_BYTES = 3000;
/** A case that seems slow is run again, and its processor time counts: other programs may have had the processor. */
const MAX_TRIES = 5;
const US_PER_MS = 1000;

export interface CaseRange {
  readonly seed: number;
  readonly first: number;
  readonly count: number;
}

export interface CasesResult {
  /** Inputs that the reader refused in its own words; the others it took. */
  refused: number;
  slowestMs: number;
}

/** A fault of a reader, with what it takes to run it again. */
export class FuzzFault extends Error {
  constructor(target: FuzzTarget, { seed }: CaseRange, index: number, input: Buffer, cause: unknown) {
    const what = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
    const shown = input.toString("base64").slice(0, SHOWN_BYTES);
    super(`${target.name}, seed ${seed}, case ${index}: ${what}\nbase64 of the input: ${shown}`, { cause });
    this.name = "FuzzFault";
  }
}

/** @throws FuzzFault for the first case whose error is none of the target's, or, with `isTimed`, that takes too long */
export async function runCases(target: FuzzTarget, range: CaseRange, isTimed: boolean): Promise<CasesResult> {
  const result = { refused: 0, slowestMs: 0 };
  for (let index = range.first; index < range.first + range.count; index += 1) {
    const input = drawCase(target, range.seed, index);
    let ms = await runOne(target, range, index, input, result);
    for (let tries = 1; isTimed && ms > target.maxCaseMs && tries < MAX_TRIES; tries += 1)
      ms = Math.min(ms, await cpuMsOf(() => runOne(target, range, index, input, { refused: 0 })));
    if (isTimed && ms > target.maxCaseMs)
      throw new FuzzFault(
        target,
        range,
        index,
        input,
        `took ${Math.round(ms)} ms, expected at most ${target.maxCaseMs}`,
      );
    result.slowestMs = Math.max(result.slowestMs, ms);
  }
  return result;
}

async function cpuMsOf(run: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / US_PER_MS;
}

async function runOne(
  target: FuzzTarget,
  range: CaseRange,
  index: number,
  input: Buffer,
  counts: { refused: number },
): Promise<number> {
  // Some readers change what they read, as front ends hand bytes over.
  const bytes = Buffer.from(input);
  const startMs = performance.now();
  try {
    const reading = target.read(bytes);
    if (reading !== undefined) await reading;
  } catch (error) {
    if (!target.isRefusal(error)) throw new FuzzFault(target, range, index, input, error);
    counts.refused += 1;
  }
  return performance.now() - startMs;
}
