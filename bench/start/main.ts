/**
 * Time and CPU time until a server is ready, with an empty repository and with one small ONNX model, and time of
 * `nereid --help`: medians of runs that alternate between the builds.
 *   npm run build && node --import tsx bench/start/main.ts [path of another nereid.cjs to compare with]
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const RUNS = 11;
const POLL_MS = 3;
const FIRST_PORT = 23_000;
/** Clock ticks of /proc/<pid>/stat are 10 ms on Linux (proc(5), USER_HZ). */
const MS_PER_TICK = 10;
const EXAMPLES = fileURLToPath(new URL("../../examples/model_repository", import.meta.url));
const OWN = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));

/** Milliseconds. */
interface Start {
  readonly ready: number;
  readonly cpu: number;
}

async function measureStart(program: string, flags: readonly string[]): Promise<Start> {
  const ports = ["http", "grpc", "metrics"].map((name, i) => `--${name}-port=${FIRST_PORT + i}`);
  const startMs = performance.now();
  const child = spawn(process.execPath, [program, "serve", ...flags, ...ports], { stdio: "ignore" });
  while (!(await isReady(FIRST_PORT))) {
    if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode}`);
    await sleep(POLL_MS);
  }
  const ready = performance.now() - startMs;
  const fields = readFileSync(`/proc/${child.pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  child.kill("SIGTERM");
  await once(child, "exit");
  return { ready, cpu: (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK };
}

async function isReady(port: number): Promise<boolean> {
  const response = await fetch(`http://127.0.0.1:${port}/v2/health/ready`).catch(() => undefined);
  return response?.status === 200;
}

async function measureHelp(program: string): Promise<Start> {
  const startMs = performance.now();
  await once(spawn(process.execPath, [program, "--help"], { stdio: "ignore" }), "exit");
  return { ready: performance.now() - startMs, cpu: Number.NaN };
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;
}

const repository = mkdtempSync(join(tmpdir(), "nereid-start-"));
const cases: readonly (readonly [name: string, measure: (program: string) => Promise<Start>])[] = [
  ["empty repository", (program) => measureStart(program, [`--model-repository=${repository}`])],
  [
    "one ONNX model",
    (program) =>
      measureStart(program, [`--model-repository=${EXAMPLES}`, "--model-control-mode=explicit", "--load-model=simple"]),
  ],
  ["`nereid --help`", measureHelp],
];
const programs = [...process.argv.slice(2), OWN];
const runs = new Map<string, Start[]>();
for (let run = 0; run < RUNS; run += 1) {
  for (const [name, measure] of cases) {
    for (const program of programs) {
      const key = `${name} | ${program}`;
      runs.set(key, [...(runs.get(key) ?? []), await measure(program)]);
    }
  }
}
rmSync(repository, { recursive: true });
process.stdout.write("| start | build | ready, ms | CPU until ready, ms |\n|---|---|---|---|\n");
for (const [key, starts] of runs) {
  const ready = median(starts.map((start) => start.ready));
  const cpu = median(starts.map((start) => start.cpu));
  process.stdout.write(`| ${key} | ${ready.toFixed(0)} | ${Number.isNaN(cpu) ? "" : cpu.toFixed(0)} |\n`);
}
