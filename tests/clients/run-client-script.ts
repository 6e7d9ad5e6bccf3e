/** Runs a script of checks of a client library to its end. */
import { type ExecFileOptions, execFile } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { ScriptResult } from "../support/python-checks.ts";
import type { ServerProcess } from "../support/server-process.ts";

const SCRIPTS = fileURLToPath(new URL("python/", import.meta.url));
/** The module `checks`, which prints results. */
const CHECKS = fileURLToPath(new URL("../conformance/python", import.meta.url));
const SCRIPT_TIMEOUT_MS = 170_000;

/** A Python script of this folder. */
export function runClientScript(python: string, script: string, server: ServerProcess): Promise<ScriptResult> {
  const env = { ...process.env, PYTHONPATH: CHECKS };
  return runProgram(python, SCRIPTS + script, server, { env });
}

/** Any script, with the server's ports as its arguments. */
export function runProgram(
  program: string,
  script: string,
  { http, grpc, metrics }: ServerProcess,
  more: ExecFileOptions = {},
): Promise<ScriptResult> {
  const options = { ...more, timeout: SCRIPT_TIMEOUT_MS, maxBuffer: 16 * 1024 * 1024, encoding: "utf8" as const };
  return new Promise((resolve) => {
    execFile(program, [script, `${http}`, `${grpc}`, `${metrics}`], options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : -1;
      resolve({ code, stdout, stderr });
    });
  });
}
