/**
 * Memory that a plan counts beside memory that the engine's process takes, for pairs of a model and a control group's limit:
 * `npm run build && node --import tsx bench/fit/main.ts [--group=/sys/fs/cgroup/memory/nereid-fit]`. Results: ../results/fit.md.
 * Needs the right to make control groups of memory, version 1.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type ModelShape, writeModel } from "./write-model.ts";

const { values: flags } = parseArgs({
  options: { group: { type: "string", default: "/sys/fs/cgroup/memory/nereid-fit" } },
});
const PROGRAM = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const MIB = 2 ** 20;
const PORT = 26_800;
const READY_TIMEOUT_MS = 240_000;
/** Long enough for two steps of the largest size. */
const PROMPT = "once upon a time there was a little dog ".repeat(150);
/** Filled by the prompts: pages that nobody wrote to take no memory. */
const CACHE_TOKENS = 4096;
const NUM_PROMPTS = 4;

const MODELS: readonly ModelShape[] = [
  { name: "12M", hiddenSize: 256, intermediateSize: 1024, numLayers: 8, numHeads: 8, numKvHeads: 4 },
  { name: "60M", hiddenSize: 512, intermediateSize: 2048, numLayers: 12, numHeads: 8, numKvHeads: 4 },
  { name: "180M", hiddenSize: 1024, intermediateSize: 2816, numLayers: 14, numHeads: 16, numKvHeads: 8 },
  { name: "420M", hiddenSize: 1536, intermediateSize: 4096, numLayers: 15, numHeads: 24, numKvHeads: 8 },
  { name: "1.1B", hiddenSize: 2048, intermediateSize: 5632, numLayers: 22, numHeads: 32, numKvHeads: 4 },
];
/** Limits, as the process without a model and this many times the weights as stored. */
const FACTORS = [0.9, 1.2, 1.6, 2.2, 3, 5];
const PROCESS_MIB = 300;

const root = mkdtempSync(join(tmpdir(), "nereid-fit-"));
/** A new one for each pair: cached files of the pair before would count. */
let group = "";
let numPairs = 0;
try {
  for (const model of MODELS) {
    const folder = join(root, model.name);
    const weightBytes = writeModel(folder, model);
    for (const factor of FACTORS) await measurePair(model.name, folder, PROCESS_MIB * MIB + factor * weightBytes);
    rmSync(folder, { recursive: true });
  }
} finally {
  rmSync(root, { recursive: true });
}

async function measurePair(name: string, folder: string, limitBytes: number): Promise<void> {
  numPairs += 1;
  group = `${flags.group}-${process.pid}-${numPairs}`;
  mkdirSync(group);
  writeFileSync(join(group, "memory.limit_in_bytes"), String(Math.round(limitBytes)));
  const argv = [
    "serve",
    folder,
    `--http-port=${PORT}`,
    "--allow-grpc=false",
    "--allow-metrics=false",
    "--log-info=true",
  ];
  argv.push("--set", `max_tokens_in_paged_kv_cache:${CACHE_TOKENS}`);
  const command = `echo $$ > ${group}/cgroup.procs && exec "$0" "$@"`;
  const child = spawn("sh", ["-c", command, process.execPath, PROGRAM, ...argv], { stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text: Buffer) => (log += text.toString()));
  const isReady = await untilReady(child);
  const plan = /memory plan: (.*); ([\d.]+) (MiB|GiB) of ([\d.]+) (MiB|GiB) free/.exec(log);
  const limit = `${name} | ${Math.round(limitBytes / MIB)} MiB`;
  if (isReady) {
    await Promise.all(Array.from({ length: NUM_PROMPTS }, (_, i) => ask(name, i)));
    const host = readdirSync(`/proc/${child.pid}/task`)
      .flatMap((task) => readFileSync(`/proc/${child.pid}/task/${task}/children`, "utf8").split(" ").filter(Boolean))
      .map((pid) => statusOf(Number(pid)))
      .sort((a, b) => b.peakMib - a.peakMib)[0];
    const planned = Number(plan?.[2]) * (plan?.[3] === "GiB" ? 1024 : 1);
    const free = Number(plan?.[4]) * (plan?.[5] === "GiB" ? 1024 : 1);
    const grown = Math.round(anonymousMib() - planned - (limitBytes / MIB - free));
    const weights = /Run +(.*)/.exec(log)?.[1] ?? "";
    console.log(
      `${limit} | planned ${planned} MiB | host peak ${host?.peakMib} MiB, anonymous ${host?.anonMib} | all processes ${anonymousMib()} MiB, beyond the plan ${grown} MiB | ${weights} | ${plan?.[1]}`,
    );
  } else console.log(`${limit} | refused: ${/does not fit.*/.exec(log)?.[0] ?? log.slice(-300)}`);
  const end = child.exitCode === null && child.signalCode === null ? once(child, "exit") : undefined;
  child.kill("SIGTERM");
  await end;
  const killed = numKilled();
  if (child.signalCode !== null || killed > 0) console.log(`${limit} | ended by ${child.signalCode}, ${killed} killed`);
  if (readFileSync(join(group, "cgroup.procs"), "utf8") === "") rmdirSync(group);
}

/** Memory of the group's processes that no file backs. */
function anonymousMib(): number {
  const stat = readFileSync(join(group, "memory.stat"), "utf8");
  return Math.round(Number(/^total_rss (\d+)/m.exec(stat)?.[1]) / MIB);
}

/** Processes of the group that the kernel ended for memory. */
function numKilled(): number {
  return Number(/oom_kill (\d+)/.exec(readFileSync(join(group, "memory.oom_control"), "utf8"))?.[1]);
}

async function untilReady(child: ChildProcess): Promise<boolean> {
  const deadlineMs = performance.now() + READY_TIMEOUT_MS;
  while (child.exitCode === null && child.signalCode === null && performance.now() < deadlineMs) {
    const response = await fetch(`http://127.0.0.1:${PORT}/v2/health/ready`).catch(() => undefined);
    if (response?.status === 200) return true;
    await sleep(100);
  }
  return false;
}

async function ask(model: string, index: number): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${PORT}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, prompt: `${index} ${PROMPT}`, max_tokens: 8 }),
  }).catch((error: unknown) => String(error));
  const text = typeof response === "string" ? response : await response.text();
  if (typeof response === "string" || response.status !== 200) console.log(`${model}: ${text.slice(0, 200)}`);
}

function statusOf(pid: number): { readonly peakMib: number; readonly anonMib: number } {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const mib = (name: string): number =>
    Math.round(Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) / 1024);
  return { peakMib: mib("VmHWM"), anonMib: mib("RssAnon") };
}
