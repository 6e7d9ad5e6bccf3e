/**
 * NVIDIA's benchmark of language models, which drives its load generator. Its packages take a gigabyte, so it is installed only when
 * that is asked for; else it is the one on the path, or the one of an earlier run. Tells why when there is none.
 */
import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { promisify } from "node:util";
import { perfAnalyzer } from "./perf-analyzer.ts";

const run = promisify(execFile);
const FOLDER = join(tmpdir(), "nereid-genai-perf");
/** The last that goes with the load generator that can be had. */
const PACKAGE = "genai-perf==0.0.8";
const INSTALL_ALL = "NEREID_BUILD_CLIENTS";
const INSTALL_TIMEOUT_MS = 600_000;
const RUN_TIMEOUT_MS = 100_000;
const REPORT = "profile_export_genai_perf.json";

/** Figures by name, as "output_sequence_length", each with "avg", "min", "max" and the like. */
export type GenaiReport = Readonly<Record<string, Readonly<Record<string, number>>>>;

export type GenaiPerf =
  | { readonly profile: (args: readonly string[], folder: string) => Promise<GenaiReport>; readonly reason: undefined }
  | { readonly profile: undefined; readonly reason: string };

export async function genaiPerf(): Promise<GenaiPerf> {
  const { environment, reason } = await perfAnalyzer();
  if (environment === undefined) return { profile: undefined, reason };
  try {
    const program = await findProgram();
    if (program === undefined) {
      return { profile: undefined, reason: `genai-perf is not here; with ${INSTALL_ALL}=1 it is installed with pip` };
    }
    const env = { ...environment, HF_HUB_OFFLINE: "1" };
    const profile = async (args: readonly string[], folder: string): Promise<GenaiReport> => {
      const options = { env, cwd: folder, timeout: RUN_TIMEOUT_MS };
      await run(program, ["profile", ...args, "--artifact-dir", folder], options);
      return JSON.parse(readFileSync(join(folder, REPORT), "utf8")) as GenaiReport;
    };
    return { profile, reason: undefined };
  } catch (error) {
    return { profile: undefined, reason: `no genai-perf here: ${String(error).split("\n")[0]}` };
  }
}

async function findProgram(): Promise<string | undefined> {
  const own = join(FOLDER, "bin", "genai-perf");
  const places = [...(process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, "genai-perf")), own];
  const found = places.find((place) => existsSync(place));
  if (found !== undefined || process.env[INSTALL_ALL] === undefined) return found;
  await run("python3", ["-m", "venv", FOLDER], { timeout: INSTALL_TIMEOUT_MS });
  await run(join(FOLDER, "bin", "pip"), ["install", "-q", PACKAGE], { timeout: INSTALL_TIMEOUT_MS });
  return own;
}
