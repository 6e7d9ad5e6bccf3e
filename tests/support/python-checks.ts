/**
 * Runs a Python script of checks against a server and makes each check a subtest. The script prints one JSON line a check:
 * {"check": name, "error": null or a traceback}. Also runs any other Python script to its end.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import process from "node:process";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { type PythonVenv, pythonVenv } from "../python-venv.ts";
import type { ServerProcess } from "./server-process.ts";

const SCRIPTS = fileURLToPath(new URL("../conformance/python/", import.meta.url));
const SCRIPT_TIMEOUT_MS = 600_000;
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;

/** The interpreter with the client library that users have. */
export const clientVenv: PythonVenv = await pythonVenv(["tritonclient[http,grpc]==2.73.0"]);

export interface ScriptResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface CheckResult {
  readonly check: string;
  readonly error: string | null;
}

/** @throws AssertionError when the script fails outside of its checks or there are none */
export async function runChecks(
  t: TestContext,
  script: string,
  server: ServerProcess,
  more: readonly string[] = [],
): Promise<void> {
  const args = [`${SCRIPTS}${script}`, `${server.http}`, `${server.grpc}`, `${server.metrics}`, ...more];
  await reportChecks(t, script, await runPython(args), server);
}

/** Each check that a script has told of becomes a subtest. @throws AssertionError as `runChecks` */
export async function reportChecks(
  t: TestContext,
  script: string,
  { code, stdout, stderr }: ScriptResult,
  server: ServerProcess,
): Promise<void> {
  assert.equal(code, 0, `${script} ended with ${code}: ${stderr}`);
  const results = stdout.split("\n").filter((line) => line.startsWith('{"check"'));
  assert.notEqual(results.length, 0, `${script} reported no checks: ${stdout}`);
  for (const line of results) {
    const { check, error } = JSON.parse(line) as CheckResult;
    await t.test(check, () => assert.ok(error === null, error ?? ""));
  }
  assert.equal(server.exitCode(), undefined, `the server ended while ${script} ran:\n${server.log()}`);
}

/** A script and its arguments, run to the end. */
export function runPython(args: readonly string[], timeoutMs: number = SCRIPT_TIMEOUT_MS): Promise<ScriptResult> {
  const { python } = clientVenv;
  assert.ok(python !== undefined, clientVenv.reason);
  // gRPC's C core writes notes about forks and proxies to the error stream; they say nothing about the server.
  const env = { ...process.env, GRPC_VERBOSITY: "NONE", PYTHONDONTWRITEBYTECODE: "1" };
  const options = { env, timeout: timeoutMs, maxBuffer: MAX_OUTPUT_BYTES };
  return new Promise((resolve) => {
    execFile(python, [...args], options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : -1;
      resolve({ code, stdout, stderr });
    });
  });
}
