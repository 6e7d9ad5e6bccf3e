/**
 * Runs the long hostile runs and writes what came of each under tests/soak/records/: commit, seed, duration, result.
 * `npm run soak -- [--minutes=30] [--seed=1] [name ...]`; the minutes count for each run.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { apiBodiesSoak } from "../tests/soak/api-bodies.ts";
import { connectionsSoak } from "../tests/soak/connections.ts";
import { decodersSoak } from "../tests/soak/decoders.ts";
import { emulatedPenaltiesSoak, emulatedSamplingSoak } from "../tests/soak/emulated-sampling.ts";
import { everyFloatSoak } from "../tests/soak/every-float.ts";
import { floatsSoak } from "../tests/soak/floats.ts";
import { fuzzSoak } from "../tests/soak/fuzz.ts";
import { grpcCallsSoak } from "../tests/soak/grpc-calls.ts";
import { guidedOutputsSoak } from "../tests/soak/guided-outputs.ts";
import { kernelsSoak } from "../tests/soak/kernels.ts";
import { longDaySoak } from "../tests/soak/long-day.ts";
import { mutantsSoak } from "../tests/soak/mutants.ts";
import { pipelineSoak } from "../tests/soak/pipeline.ts";
import { engineFaultsSoak, typescriptFaultsSoak } from "../tests/soak/process-faults.ts";
import { pythonFaultsSoak } from "../tests/soak/python-faults.ts";
import { randomConfigsSoak } from "../tests/soak/random-configs.ts";
import { realLoadsSoak } from "../tests/soak/real-loads.ts";
import { reloadsSoak } from "../tests/soak/reloads.ts";
import { restartsSoak } from "../tests/soak/restarts.ts";
import { rollingSoak } from "../tests/soak/rolling.ts";
import { samplingSoak } from "../tests/soak/sampling.ts";
import { schedulesSoak } from "../tests/soak/schedules.ts";
import { schedulingSoak } from "../tests/soak/scheduling.ts";
import type { Soak } from "../tests/soak/soak.ts";
import { storesSoak } from "../tests/soak/stores.ts";
import { toolCallsSoak } from "../tests/soak/tool-calls.ts";
import { visionSoak } from "../tests/soak/vision.ts";

const RECORDS = fileURLToPath(new URL("../tests/soak/records/", import.meta.url));
const ALL: readonly Soak[] = [
  grpcCallsSoak,
  fuzzSoak,
  restartsSoak,
  rollingSoak,
  pipelineSoak,
  schedulesSoak,
  realLoadsSoak,
  schedulingSoak,
  samplingSoak,
  emulatedSamplingSoak,
  emulatedPenaltiesSoak,
  reloadsSoak,
  pythonFaultsSoak,
  engineFaultsSoak,
  typescriptFaultsSoak,
  kernelsSoak,
  visionSoak,
  floatsSoak,
  everyFloatSoak,
  toolCallsSoak,
  guidedOutputsSoak,
  apiBodiesSoak,
  mutantsSoak,
  decodersSoak,
  connectionsSoak,
  storesSoak,
  longDaySoak,
  randomConfigsSoak,
];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { minutes: { type: "string", default: "30" }, seed: { type: "string", default: "1" } },
});
const wanted = ALL.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
if (wanted.length === 0)
  throw new Error(`no run named ${positionals.join(", ")}; there are ${ALL.map(({ name }) => name).join(", ")}`);
const minutes = Number(values.minutes);
const seed = Number(values.seed);
if (!(minutes > 0) || !Number.isSafeInteger(seed))
  throw new Error("--minutes takes a positive number, --seed a whole one");
for (const soak of wanted) await runOne(soak);

async function runOne(soak: Soak): Promise<void> {
  const startedAt = new Date().toISOString();
  const startMs = performance.now();
  let outcome: object;
  try {
    outcome = { passed: true, ...(await soak.run({ seed, deadlineMs: startMs + minutes * 60_000 })) };
  } catch (error) {
    outcome = { passed: false, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
    process.exitCode = 1;
  }
  const record = {
    name: soak.name,
    commit: git("rev-parse", "HEAD"),
    hasUncommittedChanges: git("status", "--porcelain", "--untracked-files=no") !== "",
    startedAt,
    seed,
    minutesAsked: minutes,
    seconds: Math.round((performance.now() - startMs) / 1000),
    node: process.version,
    machine: `${cpus().length} x ${cpus()[0]?.model ?? "unknown"}`,
    outcome,
  };
  mkdirSync(RECORDS, { recursive: true });
  const file = `${RECORDS}${startedAt.slice(0, 16).replace(":", "")}-${soak.name}.json`;
  writeFileSync(file, `${JSON.stringify(record, undefined, 2)}\n`);
  console.log(`${file}\n${JSON.stringify(record, undefined, 2)}`);
}

function git(...args: string[]): string {
  return execFileSync("git", args, { cwd: RECORDS.replace(/tests\/soak\/records\/$/, ""), encoding: "utf8" }).trim();
}
