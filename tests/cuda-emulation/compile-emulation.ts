/**
 * Compiles translated kernels with the host's g++ into libraries that are kept for the machine, each named by all that it depends on. The
 * headers are compiled once (GCC manual, 3.22 "Using Precompiled Headers"): they took half the time of a kernel.
 * Tells why when there is no compiler, so that tests are skipped by name.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { CudaSource } from "../../server/src/native/cuda/nvrtc.ts";
import { CACHE_FOLDER } from "../cache-folder.ts";
import { translateKernel } from "./translate-kernel.ts";

const HEADERS = fileURLToPath(new URL(".", import.meta.url));
/** The last includes the others. */
const HEADER = "ptx.h";
const HEADER_NAMES: readonly string[] = ["threads.h", "language.h", HEADER];
const HEADER_TEXTS: readonly string[] = HEADER_NAMES.map((name) => readFileSync(join(HEADERS, name), "utf8"));
const CACHE = join(CACHE_FOLDER, "cuda-emulation");
const OPTIONS: readonly string[] = [
  "-std=c++17",
  "-Og",
  "-g0",
  "-shared",
  "-fPIC",
  "-fvisibility=hidden",
  "-fno-gnu-unique",
  "-fno-strict-aliasing",
  "-ffp-contract=off",
  "-Wall",
  "-Wextra",
  "-Werror",
  // A kernel is full of hints for another compiler, and of functions that one variant or another does without.
  "-Wno-unknown-pragmas",
  "-Wno-unused",
  "-Wno-attributes",
  "-Wno-sign-compare",
  // Variables set and used under the same condition look unset to the compiler.
  "-Wno-uninitialized",
  "-Wno-maybe-uninitialized",
];

export type HostCompiler =
  | { readonly version: string; readonly reason?: undefined }
  | { readonly version: undefined; readonly reason: string };

/** Never throws. */
export function hostCompiler(): HostCompiler {
  if (process.platform !== "linux") return { version: undefined, reason: "the emulation of CUDA needs Linux" };
  try {
    return { version: execFileSync("g++", ["--version"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }) };
  } catch {
    return { version: undefined, reason: "the emulation of CUDA needs g++" };
  }
}

/** Warnings about the headers alone. */
export function checkHeaders(): string {
  const options = ["-std=c++17", "-Wall", "-Wextra", "-Wshadow", "-Wno-unused-function", "-fsyntax-only"];
  const path = join(HEADERS, "ptx.h");
  return spawnSync("g++", [...options, "-x", "c++", "-include", path, "/dev/null"], { encoding: "utf8" }).stderr;
}

export interface EmulatedSpec {
  readonly source: CudaSource;
  readonly name: string;
  readonly defines: Readonly<Record<string, string | number>>;
  /** As "sm_90a". */
  readonly arch: string;
}

/** Path of the library, compiled unless it is there. @throws Error with what the compiler says */
export function compileEmulation(compiler: HostCompiler, spec: EmulatedSpec): string {
  const { source, name, arch } = spec;
  if (compiler.version === undefined) throw new Error(`${source.name} ${name}: ${compiler.reason}`);
  const text = translateKernel(source, name);
  const defines = Object.entries({ ...spec.defines, __CUDA_ARCH__: `${arch.replace(/\D/g, "")}0` });
  const options = [...OPTIONS, ...defines.map(([key, value]) => `-D${key}=${value}`).sort()];
  const path = join(CACHE, `${name}-${hashOf([compiler.version, ...options, ...HEADER_TEXTS, text])}`);
  if (existsSync(`${path}.so`)) return `${path}.so`;
  const headers = precompiledHeaders(compiler.version);
  // Others may compile the same at the same time: each its own, the last one stays.
  const own = `${path}-${process.pid}`;
  writeFileSync(`${own}.cpp`, text);
  try {
    const args = ["-Winvalid-pch", `-I${headers}`, ...options, "-o", `${own}.so`, `${own}.cpp`];
    execFileSync("g++", args, { stdio: ["ignore", "ignore", "pipe"] });
  } catch (error) {
    const said = error instanceof Error && "stderr" in error ? String(error.stderr) : String(error);
    throw new Error(`${source.name} ${name} with ${JSON.stringify(spec.defines)} does not compile:\n${said}`);
  }
  renameSync(`${own}.cpp`, `${path}.cpp`);
  renameSync(`${own}.so`, `${path}.so`);
  return `${path}.so`;
}

/** Folder with a copy of the headers and their compiled form beside it, which g++ takes for the same options. */
function precompiledHeaders(version: string): string {
  const folder = join(CACHE, `headers-${hashOf([version, ...OPTIONS, ...HEADER_TEXTS])}`);
  if (existsSync(folder)) return folder;
  mkdirSync(CACHE, { recursive: true });
  const own = mkdtempSync(`${folder}-`);
  for (const name of HEADER_NAMES) copyFileSync(join(HEADERS, name), join(own, name));
  execFileSync("g++", [...OPTIONS, "-w", "-x", "c++-header", join(own, HEADER), "-o", join(own, `${HEADER}.gch`)]);
  try {
    renameSync(own, folder);
  } catch {
    // Another process was faster: its folder is as good.
    rmSync(own, { recursive: true });
  }
  return folder;
}

function hashOf(parts: readonly string[]): string {
  return createHash("sha256").update(parts.join("\0")).digest("hex").slice(0, 32);
}
