/**
 * A Python interpreter with packages, for tests that need one: a virtual environment, made once for a machine.
 * Packages that need other versions of the same libraries have an environment of their own, by name.
 * Tells why when that is impossible (no Python, no package index), so that tests are skipped by name.
 */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, open, readFile, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { CACHE_FOLDER } from "./cache-folder.ts";

export type PythonVenv =
  | { readonly python: string; readonly reason?: undefined }
  | { readonly python: undefined; readonly reason: string };

const LOCK = join(CACHE_FOLDER, "python-venv.lock");
/** One requirement a line: pip itself does not remember which extras it has installed. */
const DONE = "installed.txt";
const INSTALL_TIMEOUT_MS = 300_000;
/** A lock this old was left by a process that died. */
const STALE_LOCK_MS = 2 * INSTALL_TIMEOUT_MS;
const run = promisify(execFile);

/** Requirements as pip takes them, e.g. "numpy" or "tritonclient[http]". Never rejects. */
export async function pythonVenv(requirements: readonly string[], name?: string): Promise<PythonVenv> {
  const folder = join(CACHE_FOLDER, name === undefined ? "venv" : `venv-${name}`);
  const python = join(folder, "bin", "python");
  try {
    await withLock(() => prepare(folder, python, requirements));
    return { python };
  } catch (error) {
    const text = error instanceof Error ? error.message.trim() : String(error);
    return { python: undefined, reason: `no Python with ${requirements.join(", ")}: ${text.split("\n").at(-1)}` };
  }
}

async function prepare(folder: string, python: string, requirements: readonly string[]): Promise<void> {
  const list = join(folder, DONE);
  if (!existsSync(list)) {
    // None yet, or one whose making was cut off.
    await rm(folder, { recursive: true, force: true });
    await run("python3", ["-m", "venv", folder], { timeout: INSTALL_TIMEOUT_MS });
    await writeFile(list, "");
  }
  const done = new Set((await readFile(list, "utf8")).split("\n"));
  const missing = requirements.filter((requirement) => !done.has(requirement));
  if (missing.length === 0) return;
  const options = ["-q", "--disable-pip-version-check", "--retries", "1", "--timeout", "15"];
  // Python compiles what it imports; of most packages that is a small part.
  await run(python, ["-m", "pip", "install", "--no-compile", ...options, ...missing], { timeout: INSTALL_TIMEOUT_MS });
  // pip keeps one version of a package: that of another checkout is gone.
  const kept = [...done].filter((one) => !missing.some((requirement) => packageOf(requirement) === packageOf(one)));
  await writeFile(list, [...kept, ...missing].join("\n"));
}

/** "tritonclient" of "tritonclient[http]==2.73.0". */
function packageOf(requirement: string): string {
  return /^[\w.-]*/.exec(requirement)?.[0] ?? requirement;
}

/** Test files run in parallel processes: one at a time may change the environment. */
async function withLock(work: () => Promise<void>): Promise<void> {
  await mkdir(dirname(LOCK), { recursive: true });
  while (!(await tryLock())) await sleep(100);
  try {
    await work();
  } finally {
    await rm(LOCK, { force: true });
  }
}

async function tryLock(): Promise<boolean> {
  try {
    await (await open(LOCK, "wx")).close();
    return true;
  } catch {
    const age = await stat(LOCK).then(
      ({ mtimeMs }) => Date.now() - mtimeMs,
      () => 0,
    );
    if (age > STALE_LOCK_MS) await rm(LOCK, { force: true });
    return false;
  }
}
