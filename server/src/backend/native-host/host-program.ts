/**
 * The program that hosts libraries of backends: built from its sources with a C++ compiler when it is first needed, and
 * kept in a private folder by the hash of sources and compiler. An installation without a compiler brings a built one.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { endText, SupervisedProcess } from "../../child-process/supervised-process.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Environment } from "../python/settings.ts";

const PRIVATE = 0o700;
const PROGRAM = "nereid-backend-host";
/** Backends are linked against a library of this name. */
const LIBRARY = "libtritonserver.so";
const FLAGS = ["-std=c++17", "-O1", "-fPIC", "-pthread"];

/** Builds under way in this process, by folder. */
const underWay = new Map<string, Promise<void>>();

/** Path of the program. @throws ServerError unavailable when it cannot be built */
export async function hostProgram(environment: Environment): Promise<string> {
  const built = environment.NEREID_BACKEND_HOST;
  if (built !== undefined && built !== "") return builtProgram(built);
  const sources = sourceFolder();
  const compiler = environment.CXX === undefined || environment.CXX === "" ? "g++" : environment.CXX;
  const cache =
    environment.NEREID_BACKEND_HOST_CACHE ?? join(tmpdir(), `nereid-backend-host-${process.getuid?.() ?? 0}`);
  const folder = join(cache, await hashOf(sources, compiler));
  await mkdir(cache, { recursive: true, mode: PRIVATE });
  await expectPrivate(cache);
  const program = join(folder, PROGRAM);
  if (existsSync(program)) return program;
  const running =
    underWay.get(folder) ??
    build({ sources, compiler, environment, cache, folder }).finally(() => underWay.delete(folder));
  underWay.set(folder, running);
  await running;
  return program;
}

function builtProgram(folder: string): string {
  const program = join(folder, PROGRAM);
  if (existsSync(program) && existsSync(join(folder, LIBRARY))) return program;
  const text = `NEREID_BACKEND_HOST is '${folder}', which must be a folder with ${PROGRAM} and ${LIBRARY}`;
  throw new ServerError("unavailable", text);
}

interface BuildOptions {
  readonly sources: string;
  readonly compiler: string;
  readonly environment: Environment;
  readonly cache: string;
  readonly folder: string;
}

/** The folder appears whole or not at all; of two processes that build the same, the first one's stays. */
async function build({ sources, compiler, environment, cache, folder }: BuildOptions): Promise<void> {
  const draft = await mkdtemp(join(cache, "draft-"));
  try {
    const library = join(draft, LIBRARY);
    const ofLibrary = ["-shared", "-fvisibility=hidden", `-Wl,-soname,${LIBRARY}`, join(sources, "library_sources.cc")];
    await compile(compiler, [...FLAGS, ...ofLibrary, "-o", library, "-ldl"], environment);
    const ofProgram = [join(sources, "main.cc"), library, "-Wl,-rpath,$ORIGIN", "-o", join(draft, PROGRAM)];
    await compile(compiler, [...FLAGS, ...ofProgram], environment);
    await rename(draft, folder).catch((error: unknown) => {
      if (!existsSync(folder)) throw error;
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** @throws ServerError unavailable with the compiler's words */
async function compile(compiler: string, args: readonly string[], environment: Environment): Promise<void> {
  const lines: string[] = [];
  const text = await new Promise<string>((resolve) => {
    const options = { command: compiler, args, environment, channels: [] };
    new SupervisedProcess(options, {
      output: (line) => lines.push(line),
      ended: (end) => resolve(end.code === 0 ? "" : endText(end)),
    });
  });
  if (text === "") return;
  const advice =
    "Install g++, name a compiler in the environment variable CXX, or a built host in NEREID_BACKEND_HOST (docs/cpp-backends.md)";
  const reason = [text, ...lines.slice(0, 10)].join("\n");
  throw new ServerError(
    "unavailable",
    `the host of C++ backends cannot be built with '${compiler}': ${reason}\n${advice}`,
  );
}

async function hashOf(sources: string, compiler: string): Promise<string> {
  const hash = createHash("sha256").update(JSON.stringify([compiler, FLAGS, process.arch]));
  for (const file of (await readdir(sources)).sort()) hash.update(file).update(await readFile(join(sources, file)));
  return hash.digest("hex").slice(0, 32);
}

/** Programs run from this folder: no other user may write to it. */
async function expectPrivate(folder: string): Promise<void> {
  const { uid, mode } = await stat(folder);
  if (uid === process.getuid?.() && (mode & 0o022) === 0) return;
  const text = `the folder '${folder}' must belong to the server's user and be writable by nobody else`;
  throw new ServerError("unavailable", text);
}

/** Sources and builds lie at different depths. */
function sourceFolder(): string {
  const files = ["../../../backend-host/main.cc", "../../../../backend-host/main.cc"];
  const paths = files.map((path) => fileURLToPath(new URL(path, import.meta.url)));
  const found = paths.find((path) => existsSync(path));
  if (found !== undefined) return dirname(found);
  const text = `The sources of the host are missing from the installation: looked for ${paths.join(", ")}`;
  throw new ServerError("internal", text);
}
