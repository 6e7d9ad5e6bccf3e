/**
 * Time and CPU time until an empty repository is served, and time of `nereid --help`: medians of ten runs.
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

const RUNS = 10;
const POLL_MS = 3;
const FIRST_PORT = 23_000;
/** Clock ticks of /proc/<pid>/stat are 10 ms on Linux (proc(5), USER_HZ). */
const MS_PER_TICK = 10;

interface Start {
  readonly readyMs: number;
  readonly cpuMs: number;
}

async function measureStart(program: string, repository: string, port: number): Promise<Start> {
  const ports = [`--http-port=${port}`, `--grpc-port=${port + 1}`, `--metrics-port=${port + 2}`];
  const startMs = performance.now();
  const child = spawn(process.execPath, [program, "serve", `--model-repository=${repository}`, ...ports], {
    stdio: "ignore",
  });
  while (!(await isReady(port))) await sleep(POLL_MS);
  const readyMs = performance.now() - startMs;
  const fields = readFileSync(`/proc/${child.pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  child.kill("SIGTERM");
  await once(child, "exit");
  return { readyMs, cpuMs: (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK };
}

async function isReady(port: number): Promise<boolean> {
  const response = await fetch(`http://127.0.0.1:${port}/v2/health/ready`).catch(() => undefined);
  return response?.status === 200;
}

async function measureHelp(program: string): Promise<number> {
  const startMs = performance.now();
  await once(spawn(process.execPath, [program, "--help"], { stdio: "ignore" }), "exit");
  return performance.now() - startMs;
}

function median(values: readonly number[]): string {
  return ([...values].sort((a, b) => a - b)[values.length >> 1] ?? 0).toFixed(0);
}

const own = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const repository = mkdtempSync(join(tmpdir(), "nereid-start-"));
process.stdout.write("| build | ready, ms | CPU until ready, ms | --help, ms |\n|---|---|---|---|\n");
for (const program of [...process.argv.slice(2), own]) {
  const starts: Start[] = [];
  const helps: number[] = [];
  for (let run = 0; run < RUNS; run += 1) {
    starts.push(await measureStart(program, repository, FIRST_PORT + 3 * run));
    helps.push(await measureHelp(program));
  }
  const ready = median(starts.map(({ readyMs }) => readyMs));
  const cpu = median(starts.map(({ cpuMs }) => cpuMs));
  process.stdout.write(`| ${program} | ${ready} | ${cpu} | ${median(helps)} |\n`);
}
rmSync(repository, { recursive: true });
