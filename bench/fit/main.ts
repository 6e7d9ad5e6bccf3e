/**
 * Memory that a plan counts beside memory that the engine's process takes, for pairs of a model and a control group's limit:
 * `npm run build && node --conditions=nereid-source --import tsx bench/fit/main.ts [--group=/sys/fs/cgroup/memory/nereid-fit]`. Results: ../results/fit.md.
 * Needs the right to make control groups of memory, version 1.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { NARROWER } from "../../offline/src/models/prepare/describe-model.ts";
import { engineProcessBytes } from "../../offline/src/models/prepare/fit-model.ts";
import { SHAPE_100MB, type Shape, type WeightFormat, writeRandomGguf } from "../llm-cpu/random-gguf.ts";
import { type ModelShape, type StoredType, writeModel } from "./write-model.ts";

const { values: flags } = parseArgs({
  options: { group: { type: "string", default: "/sys/fs/cgroup/memory/nereid-fit" } },
});
const PROGRAM = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const MIB = 2 ** 20;
const PORT = 26_800;
const READY_TIMEOUT_MS = 240_000;
/** Long enough for one step of the largest size. */
const PROMPT = "once upon a time there was a little dog ";
/** Some 1400 tokens: words of the example's vocabulary, bytes of the GGUF files'. */
const REPEATS = { folder: 150, file: 35 } as const;
/** Filled by the prompts: pages that nobody wrote to take no memory. */
const CACHE_TOKENS = 4096;
const NUM_PROMPTS = 4;
/** As many as may run at a time: the plan counts logits of all of them. */
const NUM_SEQUENCES = 64;

const SHAPE_12M = { name: "12M", hiddenSize: 256, intermediateSize: 1024, numLayers: 8, numHeads: 8, numKvHeads: 4 };
const SHAPE_60M = { name: "60M", hiddenSize: 512, intermediateSize: 2048, numLayers: 12, numHeads: 8, numKvHeads: 4 };
const SHAPE_180M = {
  name: "180M",
  hiddenSize: 1024,
  intermediateSize: 2816,
  numLayers: 14,
  numHeads: 16,
  numKvHeads: 8,
};
/** Beside that of 50 M parameters, with another vocabulary and wider layers. */
const GGUF_300M: Shape = { hidden: 1024, heads: 16, kvHeads: 4, headDim: 64, mlp: 4096, vocab: 64_000, layers: 14 };

interface Case {
  readonly name: string;
  /** Writes the model, and gives its path and the bytes of its weights. */
  readonly write: (folder: string) => Promise<readonly [path: string, weightBytes: number]>;
  /** Limits, as the processes without a model and this many times the weights as stored. */
  readonly factors: readonly number[];
  readonly kind: keyof typeof REPEATS;
}

const CASES: readonly Case[] = [
  folderCase(SHAPE_12M, "bf16", [2.5, 4, 8]),
  folderCase(SHAPE_12M, "f32", [1.5, 3, 5]),
  folderCase(SHAPE_60M, "bf16", [1.3, 2.5, 4]),
  fileCase("50M", SHAPE_100MB, "q8_0", [2, 3, 5]),
  folderCase(SHAPE_60M, "f32", [1.4, 2, 3]),
  fileCase("50M", SHAPE_100MB, "q4_0", [3, 5, 8]),
  fileCase("50M", SHAPE_100MB, "bf16", [1.5, 2.6, 4]),
  folderCase(SHAPE_60M, "f16", [2.5, 4]),
  folderCase(SHAPE_180M, "bf16", [1.4, 2.5, 3.5]),
  fileCase("300M", GGUF_300M, "q4_0", [1.6, 2, 3]),
  fileCase("300M", GGUF_300M, "q8_0", [1.4, 2, 3]),
];
const PROCESS_MIB = 300;

const root = mkdtempSync(join(tmpdir(), "nereid-fit-"));
/** A new one for each pair: cached files of the pair before would count. */
let group = "";
let numPairs = 0;
try {
  console.log(
    "| model | limit | weights | predicted | peak | difference | anonymous, file at the end | plan |\n|---|---|---|---|---|---|---|---|",
  );
  for (const { name, write, factors, kind } of CASES) {
    const folder = join(root, name.replaceAll(" ", "-"));
    const [path, weightBytes] = await write(folder);
    for (const factor of factors)
      await measurePair(name, path, PROCESS_MIB * MIB + factor * weightBytes, REPEATS[kind]);
    rmSync(folder, { recursive: true });
  }
} finally {
  rmSync(root, { recursive: true });
}

function folderCase(shape: ModelShape, type: StoredType, factors: readonly number[]): Case {
  return {
    kind: "folder",
    name: `${shape.name} ${type}`,
    write: (folder) => Promise.resolve([folder, writeModel(folder, shape, type)]),
    factors,
  };
}

function fileCase(size: string, shape: Shape, type: WeightFormat, factors: readonly number[]): Case {
  return {
    kind: "file",
    name: `${size} GGUF ${type}`,
    async write(folder) {
      mkdirSync(folder);
      const path = join(folder, "model.gguf");
      await writeRandomGguf(path, shape, type);
      return [path, statSync(path).size];
    },
    factors,
  };
}

async function measurePair(name: string, path: string, limitBytes: number, repeats: number): Promise<void> {
  numPairs += 1;
  group = `${flags.group}-${process.pid}-${numPairs}`;
  mkdirSync(group);
  writeFileSync(join(group, "memory.limit_in_bytes"), String(Math.round(limitBytes)));
  const argv = ["serve", path, `--http-port=${PORT}`, "--allow-grpc=false", "--allow-metrics=false", "--log-info=true"];
  argv.push("--set", `max_tokens_in_paged_kv_cache:${CACHE_TOKENS}`);
  const command = `echo $$ > ${group}/cgroup.procs && exec "$0" "$@"`;
  const child = spawn("sh", ["-c", command, process.execPath, PROGRAM, ...argv], { stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text: Buffer) => (log += text.toString()));
  const isReady = await untilReady(child);
  const limit = `${name} | ${Math.round(limitBytes / MIB)} MiB`;
  if (isReady) {
    await Promise.all(Array.from({ length: NUM_PROMPTS }, (_, i) => ask(i, repeats)));
    await Promise.all(Array.from({ length: NUM_SEQUENCES }, (_, i) => ask(i, 1)));
    console.log(`| ${limit} | ${await servedRow(child, log, path)} |`);
  } else console.log(`| ${limit} | refused | | | | | ${/does not fit.*/.exec(log)?.[0] ?? log.slice(-300)} |`);
  const end = child.exitCode === null && child.signalCode === null ? once(child, "exit") : undefined;
  child.kill("SIGTERM");
  await end;
  const killed = numKilled();
  if (child.signalCode !== null || killed > 0) console.log(`${limit} | ended by ${child.signalCode}, ${killed} killed`);
  if (readFileSync(join(group, "cgroup.procs"), "utf8") === "") rmdirSync(group);
}

/** The engine's process is the largest child. */
async function servedRow(child: ChildProcess, log: string, path: string): Promise<string> {
  const [, plan = "", total, unit] = /memory plan: (.*); ([\d.]+) (MiB|GiB) of /.exec(log) ?? [];
  const [host] = readdirSync(`/proc/${child.pid}/task`)
    .flatMap((task) => readFileSync(`/proc/${child.pid}/task/${task}/children`, "utf8").split(" ").filter(Boolean))
    .map((pid) => statusOf(Number(pid)))
    .sort((a, b) => b.peakMib - a.peakMib);
  if (host === undefined) return "no process of an engine";
  const planned = Number(total) * (unit === "GiB" ? 1024 : 1);
  const weights = /Run +on the CPU, weights (.*)/.exec(log)?.[1] ?? "";
  const chosen = NARROWER.find((type) => type !== undefined && weights.startsWith(`in ${type}`));
  const predicted = Math.round(planned + (await engineProcessBytes(path, chosen)) / MIB);
  const difference = (100 * (predicted - host.peakMib)) / host.peakMib;
  const { peakMib, anonMib, fileMib } = host;
  return [
    weights,
    `${predicted} MiB`,
    `${peakMib} MiB`,
    `${difference.toFixed(1)} %`,
    `${anonMib}, ${fileMib}`,
    plan,
  ].join(" | ");
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

async function ask(index: number, repeats: number): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${PORT}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "ensemble", prompt: `${index} ${PROMPT.repeat(repeats)}`, max_tokens: 2 }),
  }).catch((error: unknown) => String(error));
  const text = typeof response === "string" ? response : await response.text();
  if (typeof response === "string" || response.status !== 200) console.log(text.slice(0, 200));
}

function statusOf(pid: number): { readonly peakMib: number; readonly anonMib: number; readonly fileMib: number } {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const mib = (name: string): number =>
    Math.round(Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) / 1024);
  return { peakMib: mib("VmHWM"), anonMib: mib("RssAnon"), fileMib: mib("RssFile") };
}
