/**
 * Triton's own load generator, which older wheels of its client library carry, with the two libraries that it is linked with:
 * fetched once into the folder for temporary files. Tells why when that is impossible.
 */
import { execFile } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import process from "node:process";
import { promisify } from "node:util";

const run = promisify(execFile);
const FOLDER = join(tmpdir(), "nereid-perf-analyzer");
const READY = join(FOLDER, "ready");
const WHEELS = ["tritonclient==2.48.0", "nvidia-cuda-runtime-cu12==12.6.77"];
const PROGRAM = "tritonclient-2.48.0.data/data/bin/perf_analyzer";
const LIBRARIES = ["nvidia/cuda_runtime/lib", "usr/lib/x86_64-linux-gnu"];
const TIMEOUT_MS = 100_000;

export type PerfAnalyzer =
  | {
      readonly run: (args: readonly string[]) => Promise<string>;
      /** For programs that look for it on the path. */
      readonly environment: NodeJS.ProcessEnv;
      readonly reason: undefined;
    }
  | { readonly run: undefined; readonly environment: undefined; readonly reason: string };

export async function perfAnalyzer(): Promise<PerfAnalyzer> {
  try {
    if (!existsSync(READY)) await fetchAll();
    const env = { ...process.env, LD_LIBRARY_PATH: LIBRARIES.map((path) => join(READY, path)).join(":") };
    const start = async (args: readonly string[]): Promise<string> =>
      (await run(join(READY, PROGRAM), [...args], { env, timeout: TIMEOUT_MS })).stdout;
    await start(["--version"]);
    const path = `${join(READY, dirname(PROGRAM))}${delimiter}${process.env.PATH}`;
    return { run: start, environment: { ...env, PATH: path }, reason: undefined };
  } catch (error) {
    const text = error instanceof Error ? error.message.trim().split("\n").at(-1) : String(error);
    return { run: undefined, environment: undefined, reason: `no perf_analyzer here: ${text}` };
  }
}

/** The folder appears at its place when it is whole: another process may look for it. */
async function fetchAll(): Promise<void> {
  const part = `${READY}.${process.pid}`;
  mkdirSync(part, { recursive: true });
  const options = { cwd: part, timeout: TIMEOUT_MS };
  await run("python3", ["-m", "pip", "download", "-q", "--no-deps", "--retries", "1", ...WHEELS], options);
  await run("apt-get", ["download", "libb64-0d"], options);
  for (const name of readdirSync(part)) {
    if (name.endsWith(".whl")) await run("python3", ["-m", "zipfile", "-e", name, "."], options);
    if (name.endsWith(".deb")) await run("dpkg", ["-x", name, "."], options);
  }
  chmodSync(join(part, PROGRAM), 0o755);
  renameSync(part, READY);
}
