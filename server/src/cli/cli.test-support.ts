/**
 * Runs the `nereid` command as a process of its own and waits for its end: the built one, which starts in a third of the time,
 * or from source when anything was written since it was built.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { LOADER_FLAGS } from "../../../tests/support/source-loader.ts";

export interface CliRun {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const PROGRAM = `import { main } from ${JSON.stringify(new URL("./nereid.ts", import.meta.url).href)}; await main(process.argv.slice(1));`;
const FROM_SOURCE = ["--conditions=nereid-source", ...LOADER_FLAGS, "--input-type=module", "-e", PROGRAM, "--"];
const BUILT = [join(ROOT, "server/bin/nereid.cjs")];
/** A file that a build writes, and the sources that go into it. */
const BUILDS: readonly (readonly [built: string, folders: readonly string[]])[] = [
  ["wire/dist/index.js", ["wire/src"]],
  ["server/dist/src/cli/nereid.js", ["server/src", "server/kernels"]],
];

const PRINT_MEMORY = "process.on('exit', () => process.stdout.write('\\n' + process.resourceUsage().maxRSS * 1024));";

let command: readonly string[] | undefined;

export function cliCommand(argv: readonly string[]): readonly string[] {
  command ??= isBuilt() ? BUILT : FROM_SOURCE;
  return [...command, ...argv];
}

/** The same command as a program that prints the largest memory that it had, in bytes, on a last line of its own. */
export function measuredCommand(argv: readonly string[]): readonly string[] {
  const [program = "", ...rest] = cliCommand(argv);
  const hook = `data:text/javascript,${encodeURIComponent(PRINT_MEMORY)}`;
  return ["--import", hook, program, ...rest];
}

function isBuilt(): boolean {
  return BUILDS.every(([built, folders]) => {
    const builtMs = statSync(join(ROOT, built), { throwIfNoEntry: false })?.mtimeMs ?? 0;
    return folders.flatMap(sourceFiles).every((path) => statSync(path).mtimeMs < builtMs);
  });
}

function sourceFiles(folder: string): readonly string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts") && !/\.(test|test-support|bench)\.ts$/.test(path))
    .map((path) => join(ROOT, folder, path));
}

export async function runCli(argv: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CliRun> {
  const child = spawn(process.execPath, cliCommand(argv), {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, stdout, stderr };
}
