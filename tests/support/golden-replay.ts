/**
 * Replays recorded answers against the built server, one profile of flags at a time, in a child process. Without Python
 * it replays a copy of the recordings that names no Python model, and says what it left out.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { freePortRange } from "./server-process.ts";

export const GOLDEN: string = fileURLToPath(new URL("../golden/", import.meta.url));
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** Words must not contain spaces, which paths may: the command is relative to the workspace. */
const COMMAND = "node server/bin/tritonserver.cjs";
const START = `${COMMAND} --model-repository={repository} --http-port={http} --grpc-port={grpc} --metrics-port={metrics} --http-address=127.0.0.1 --grpc-address=127.0.0.1 --metrics-address=127.0.0.1 {flags}`;
const PROBE_FILES = ["probes.jsonl", "grpc-probes.jsonl", "cli-probes.jsonl"];
/** Three are used by a server, more by the command lines that occupy one. */
const PORTS_PER_PROFILE = 20;
const RUN_TIMEOUT_MS = 800_000;
/** The name that the replayer gives the command-line probes. */
export const COMMAND_LINE = "cli";

export interface ProbeResult {
  readonly id: string;
  readonly group: string;
  readonly mode: string;
  readonly passed: boolean;
  readonly diff?: string;
}

export interface Probe {
  readonly id: string;
  readonly group: string;
  readonly mode: string;
}

export interface GoldenSet extends AsyncDisposable {
  readonly folder: string;
  readonly probes: readonly Probe[];
  /** Profiles with probes, the longest first. */
  readonly profiles: readonly string[];
  /** Ids of the probes that cannot run here. */
  readonly skipped: readonly string[];
  readonly python: string | undefined;
  /** The first of the ports that belong to the set while it is open; each profile has its own. */
  readonly firstPort: number;
}

export interface ReplaySelection {
  readonly profile: string;
  readonly id?: string;
}

export async function openGoldenSet(python: string | undefined): Promise<GoldenSet> {
  const lines = await readProbeLines(GOLDEN);
  const models = python === undefined ? await pythonModels() : [];
  const [kept, left] = partition(lines, ({ text }) => !models.some((model) => names(text, model)));
  const probes = kept.map(({ probe }) => probe);
  const folder = python === undefined ? await copyWithout(models, kept) : GOLDEN;
  const profiles = byNumProbes(probes);
  return {
    folder,
    probes,
    profiles,
    skipped: left.map(({ probe }) => probe.id),
    python,
    firstPort: await freePortRange(profiles.length * PORTS_PER_PROFILE),
    async [Symbol.asyncDispose]() {
      if (folder !== GOLDEN) await rm(folder, { recursive: true, force: true });
    },
  };
}

/** @throws AssertionError with the replayer's words when it gives no result */
export async function replay(set: GoldenSet, { profile, id }: ReplaySelection): Promise<readonly ProbeResult[]> {
  const scratch = await mkdtemp(join(tmpdir(), "nereid-replay-"));
  try {
    const output = join(scratch, "result.json");
    const port = set.firstPort + set.profiles.indexOf(profile) * PORTS_PER_PROFILE;
    const args = [`--dir=${set.folder}`, `--start=${START}`, `--profile=${profile}`, `--port=${port}`];
    const said = await runReplayer(
      [...args, `--json=${output}`, ...(id === undefined ? [] : [`--id=${id}`])],
      set.python,
    );
    assert.ok(existsSync(output), `the replayer ended without a result: ${said}`);
    const { results } = JSON.parse(await readFile(output, "utf8")) as { results: readonly ProbeResult[] };
    return results;
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

function runReplayer(args: readonly string[], python: string | undefined): Promise<string> {
  const path = `${dirname(process.execPath)}${delimiter}${process.env.PATH}`;
  const env = { ...process.env, PATH: path, ...(python === undefined ? {} : { NEREID_PYTHON: python }) };
  const options = { cwd: ROOT, env, timeout: RUN_TIMEOUT_MS };
  return new Promise((resolve) => {
    // Its exit code tells whether all probes passed, which the result says better.
    execFile(process.execPath, [join(GOLDEN, "replay.mjs"), ...args], options, (_, stdout, stderr) =>
      resolve(`${stdout}\n${stderr}`),
    );
  });
}

interface ProbeLine {
  readonly file: string;
  readonly line: string;
  readonly probe: Probe;
  /** With messages decoded, so that names inside of them can be found. */
  readonly text: string;
}

async function readProbeLines(folder: string): Promise<ProbeLine[]> {
  const texts = await Promise.all(PROBE_FILES.map((file) => readFile(join(folder, file), "utf8")));
  return texts.flatMap((all, i) => {
    const file = PROBE_FILES[i] ?? "";
    return all.split("\n").flatMap((line) => (line.trim() === "" ? [] : [probeLine(file, line)]));
  });
}

function probeLine(file: string, line: string): ProbeLine {
  const { id, group, mode = COMMAND_LINE } = JSON.parse(line) as Partial<Probe> & Pick<Probe, "id" | "group">;
  const messages = [...line.matchAll(/"([A-Za-z0-9+/]{8,}={0,2})"/g)].map(([, text]) => decoded(text ?? ""));
  return { file, line, probe: { id, group, mode }, text: [line, ...messages].join("\n") };
}

/** True for /models/x, a quoted "x" and, in messages, an x behind its length: "text" is the name of a model and many other things. */
function names(text: string, model: string): boolean {
  return text.includes(`/models/${model}/`) || new RegExp(`(?:/models/|["'\\x00-\\x1f])${model}(?![\\w/])`).test(text);
}

function decoded(base64: string): string {
  return Buffer.from(base64, "base64").toString("latin1");
}

/** Names of the models in the recordings that are written in Python. */
async function pythonModels(): Promise<string[]> {
  const paths = await readdir(join(GOLDEN, "repository"), { recursive: true });
  return paths.filter((path) => path.endsWith("/model.py")).flatMap((path) => path.split("/").at(-3) ?? []);
}

async function copyWithout(models: readonly string[], kept: readonly ProbeLine[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "nereid-golden-"));
  const filter = (path: string): boolean => !models.some((model) => path.endsWith(`/${model}`));
  await cp(join(GOLDEN, "repository"), join(folder, "repository"), { recursive: true, filter });
  const profiles = await readFile(join(GOLDEN, "profiles.json"), "utf8");
  const loads = models.map((model) => `, "--load-model=${model}"`);
  await writeFile(
    join(folder, "profiles.json"),
    loads.reduce((text, flag) => text.replaceAll(flag, ""), profiles),
  );
  for (const file of PROBE_FILES) {
    const lines = kept.filter((probe) => probe.file === file).map(({ line }) => line);
    await writeFile(join(folder, file), lines.join("\n"));
  }
  return folder;
}

function byNumProbes(probes: readonly Probe[]): string[] {
  const numProbes = new Map<string, number>();
  for (const { mode } of probes) numProbes.set(mode, (numProbes.get(mode) ?? 0) + 1);
  return [...numProbes].sort(([, a], [, b]) => b - a).map(([mode]) => mode);
}

function partition<T>(items: readonly T[], isFirst: (item: T) => boolean): [T[], T[]] {
  return [items.filter(isFirst), items.filter((item) => !isFirst(item))];
}
