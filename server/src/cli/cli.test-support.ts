/** Runs the `nereid` command as a process of its own, from source, and waits for its end. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { fileURLToPath } from "node:url";

export interface CliRun {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const PROGRAM = `import { main } from ${JSON.stringify(new URL("./nereid.ts", import.meta.url).href)}; await main(process.argv.slice(1));`;

export function cliCommand(argv: readonly string[]): readonly string[] {
  return ["--conditions=nereid-source", "--import", "tsx", "--input-type=module", "-e", PROGRAM, "--", ...argv];
}

export async function runCli(argv: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CliRun> {
  const child = spawn(process.execPath, cliCommand(argv), {
    cwd: fileURLToPath(new URL("../../..", import.meta.url)),
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
