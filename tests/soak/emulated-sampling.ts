/**
 * The kernel of sampling on emulated threads: distributions against the reference, with fewer draws than the engine's own
 * sampler makes, and penalties against that sampler in up to 100,000 random rows.
 */
import assert from "node:assert/strict";
import { hostCompiler } from "../cuda-emulation/compile-emulation.ts";
import { EmulatedDevice } from "../cuda-emulation/emulated-device.ts";
import { deviateOf, distributionRef } from "../sampling/chi-square.ts";
import { chooseEmulated } from "../sampling/emulated-sampler.ts";
import { checkPenalties, PENALTY_ROWS } from "../sampling/penalty-cases.ts";
import { logitsOf, SAMPLING_CASES, type SamplingCase, sequenceOf } from "../sampling/sampling-cases.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const MAX_PENALTY_ROWS = 100_000;
const VOCAB = 1003;
const ROWS = 128;
const MAX_DEVIATE = 4.5;

export const emulatedSamplingSoak: Soak = { name: "emulated-sampling", run: drawDistributions };
export const emulatedPenaltiesSoak: Soak = { name: "emulated-penalties", run: choosePenalized };

function openDevice(seed: number): EmulatedDevice {
  const compiler = hostCompiler();
  assert.ok(compiler.version !== undefined, compiler.reason);
  return new EmulatedDevice({ compiler, arch: "sm_90", seed });
}

async function choosePenalized({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const device = openDevice(seed);
  let rows = 0;
  for (; rows < MAX_PENALTY_ROWS && performance.now() < deadlineMs; rows += PENALTY_ROWS)
    await checkPenalties(device, seed + rows);
  return { rows };
}

/** Flat and peaked logits of each case, in turns. */
async function drawDistributions({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const device = openDevice(seed);
  const experiments = [false, true].flatMap((isPeaked) =>
    SAMPLING_CASES.map((each) => experimentOf(each, isPeaked, seed)),
  );
  let draws = 0;
  while (draws === 0 || performance.now() < deadlineMs) {
    for (const { logits, sequence, counts } of experiments) {
      const rows = Array.from({ length: ROWS }, (_, i) => ({ logits, sequence, index: draws + i }));
      for (const token of await chooseEmulated(device, rows)) counts[token] = (counts[token] ?? 0) + 1;
    }
    draws += ROWS;
  }
  const deviates = experiments.map(({ counts, expected, name }) => deviateOf(counts, expected, name));
  const largest = Math.max(...deviates);
  assert.ok(largest < MAX_DEVIATE, `${experiments[deviates.indexOf(largest)]?.name}: a deviate of ${largest}`);
  return { cases: experiments.length, drawsOfEach: draws, largestDeviate: Number(largest.toFixed(3)) };
}

function experimentOf(each: SamplingCase, isPeaked: boolean, seed: number) {
  const logits = logitsOf(VOCAB, isPeaked, seed);
  const sequence = sequenceOf(each, VOCAB);
  const name = `${each.name}, ${isPeaked ? "peaked" : "flat"}`;
  return { name, logits, sequence, expected: distributionRef(logits, sequence), counts: new Float64Array(VOCAB) };
}
