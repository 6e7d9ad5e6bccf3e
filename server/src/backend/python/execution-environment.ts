/**
 * The environment that a model names for itself: a folder with an interpreter, or an archive of one. An archive is
 * unpacked once, and kept as long as it stays the same. Knows no model and no process.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import type { Environment } from "./settings.ts";
import { unpackArchive } from "./unpack-archive.ts";

const PRIVATE = 0o700;

/** Archives that are being unpacked in this process, by the folder they go to. */
const underWay = new Map<string, Promise<void>>();

export interface ExecutionEnvironment {
  readonly interpreter: string;
  /** Environment variables of its processes. */
  readonly environment: Environment;
}

/** `cacheFolder`: where archives are unpacked. @throws ServerError invalid_argument with the problem and its fix */
export async function openEnvironment(
  path: string,
  modelName: string,
  base: Environment,
  cacheFolder: string = defaultCacheFolder(base),
): Promise<ExecutionEnvironment> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) throw invalid(modelName, path, "does not exist");
  const folder = found.isDirectory() ? path : await unpacked(path, modelName, cacheFolder);
  const interpreter = ["python3", "python"].map((name) => join(folder, "bin", name)).find((file) => existsSync(file));
  if (interpreter === undefined) throw invalid(modelName, path, "has no interpreter bin/python3");
  return { interpreter, environment: activated(folder, base) };
}

/** Variables that activating the environment in a shell would set. */
function activated(folder: string, base: Environment): Environment {
  const before = (name: string, first: string): string => [first, base[name]].filter(Boolean).join(":");
  return {
    ...base,
    PATH: before("PATH", join(folder, "bin")),
    LD_LIBRARY_PATH: before("LD_LIBRARY_PATH", join(folder, "lib")),
    CONDA_PREFIX: folder,
  };
}

async function unpacked(archive: string, modelName: string, cacheFolder: string): Promise<string> {
  const { size, mtimeMs, ino } = await stat(archive);
  const key = createHash("sha256").update(`${archive}\n${size}\n${mtimeMs}\n${ino}`).digest("hex").slice(0, 32);
  const folder = join(cacheFolder, key);
  if (existsSync(folder)) return folder;
  const running =
    underWay.get(folder) ?? unpackInto(archive, folder, cacheFolder).finally(() => underWay.delete(folder));
  underWay.set(folder, running);
  try {
    await running;
  } catch (error) {
    throw invalid(modelName, archive, `cannot be unpacked: ${error instanceof Error ? error.message : String(error)}`);
  }
  return folder;
}

/** The folder appears whole or not at all; of two processes that unpack the same archive, the first one's stays. */
async function unpackInto(archive: string, folder: string, cacheFolder: string): Promise<void> {
  await mkdir(cacheFolder, { recursive: true, mode: PRIVATE });
  await expectPrivate(cacheFolder);
  const draft = await mkdtemp(join(cacheFolder, "draft-"));
  try {
    await unpackArchive(archive, draft);
    await rename(draft, folder).catch((error: unknown) => {
      if (!existsSync(folder)) throw error;
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** Programs run from this folder: no other user may write to it. */
async function expectPrivate(folder: string): Promise<void> {
  const { uid, mode } = await stat(folder);
  if (uid === process.getuid?.() && (mode & 0o022) === 0) return;
  throw new Error(`the folder '${folder}' must belong to the server's user and be writable by nobody else`);
}

function defaultCacheFolder(base: Environment): string {
  return base.NEREID_PYTHON_ENVIRONMENTS ?? join(tmpdir(), `nereid-python-environments-${process.getuid?.() ?? 0}`);
}

function invalid(modelName: string, path: string, problem: string): ServerError {
  const text = `EXECUTION_ENV_PATH of model '${modelName}': '${path}' ${problem}. Expected a folder with bin/python3 or a .tar.gz archive of one, as conda-pack makes it`;
  return invalidArgument(text);
}
