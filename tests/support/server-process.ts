/**
 * The built server as a child process, as users run it: free loopback ports, readiness, its log, and a stop whose exit code counts.
 * Knows no model; callers say which repositories and flags.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const HOST = "127.0.0.1";
/** The file behind the command `tritonserver`. */
export const SERVER_BIN: string = fileURLToPath(new URL("../../server/bin/tritonserver.cjs", import.meta.url));
const BUILT = fileURLToPath(new URL("../../server/dist/src/cli/serve.js", import.meta.url));
const READY_TIMEOUT_MS = 240_000;
const STOP_TIMEOUT_MS = 120_000;
const POLL_MS = 50;
const MAX_PORT_TRIES = 1000;

export interface ServerProcessOptions {
  /** Folders of models, one `--model-repository` each. */
  readonly repositories: readonly string[];
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** State to wait for: "live" for servers with models that cannot load. */
  readonly waitFor?: "ready" | "live";
  /** Drawn at random by default. */
  readonly ports?: Ports;
  /** Other programs in front of the same flags; the server's own by default. */
  readonly command?: readonly string[];
}

export interface Ports {
  readonly http: number;
  readonly grpc: number;
  readonly metrics: number;
}

export interface ServerProcess extends Ports {
  readonly pid: number;
  readonly baseUrl: string;
  /** All that it wrote, both streams in order of arrival. */
  log(): string;
  /** Undefined while it runs. */
  exitCode(): number | null | undefined;
  /** SIGTERM, wait, and assert that the exit was clean. */
  stop(): Promise<void>;
  /** Ends it at once, for `finally`; no fault when it is gone already. */
  kill(): Promise<void>;
}

/** @throws AssertionError with the server's log when it ends or does not get ready */
export async function startServerProcess(options: ServerProcessOptions): Promise<ServerProcess> {
  assert.ok(existsSync(BUILT), `${BUILT} does not exist: run "npm run build" first`);
  const ports = options.ports ?? (await freePorts());
  const [program = "", ...first] = options.command ?? [process.execPath, SERVER_BIN];
  const child = spawn(program, [...first, ...flagsOf(options, ports)], {
    env: { ...process.env, ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const server = watch(child, ports);
  try {
    await untilHealthy(server, options.waitFor ?? "ready");
  } catch (error) {
    await server.kill();
    throw error;
  }
  return server;
}

function flagsOf({ repositories, flags = [] }: ServerProcessOptions, { http, grpc, metrics }: Ports): string[] {
  return [
    ...repositories.map((folder) => `--model-repository=${folder}`),
    `--http-port=${http}`,
    `--grpc-port=${grpc}`,
    `--metrics-port=${metrics}`,
    ...["http", "grpc", "metrics"].map((name) => `--${name}-address=${HOST}`),
    ...flags,
  ];
}

function watch(child: ChildProcess, ports: Ports): ServerProcess {
  let text = "";
  let exit: { readonly code: number | null } | undefined;
  const gone = new Promise<void>((resolve) => {
    child.once("error", (error) => {
      text += `\ncould not be started: ${error.message}\n`;
      exit = { code: -1 };
      resolve();
    });
    child.once("close", (code) => {
      exit ??= { code };
      resolve();
    });
  });
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
  }
  const killNow = (): void => {
    child.kill("SIGKILL");
  };
  // A test run that dies must not leave a server behind.
  process.once("exit", killNow);
  void gone.then(() => process.off("exit", killNow));
  return {
    ...ports,
    pid: child.pid ?? -1,
    baseUrl: `http://${HOST}:${ports.http}`,
    log: () => text,
    exitCode: () => exit?.code,
    async stop() {
      child.kill("SIGTERM");
      const ended = await Promise.race([gone.then(() => true), sleep(STOP_TIMEOUT_MS, false, { ref: false })]);
      if (!ended) killNow();
      await gone;
      assert.equal(ended, true, `the server did not end within ${STOP_TIMEOUT_MS} ms of SIGTERM:\n${text}`);
      assert.equal(exit?.code, 0, `the server ended with ${exit?.code}:\n${text}`);
    },
    async kill() {
      if (exit === undefined) killNow();
      await gone;
    },
  };
}

async function untilHealthy(server: ServerProcess, what: "ready" | "live"): Promise<void> {
  const deadline = Date.now() + READY_TIMEOUT_MS;
  while (server.exitCode() === undefined && Date.now() < deadline) {
    const isHealthy = await fetch(`${server.baseUrl}/v2/health/${what}`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isHealthy) return;
    await sleep(POLL_MS);
  }
  const state = server.exitCode() === undefined ? `not ${what} after ${READY_TIMEOUT_MS} ms` : "gone";
  throw new assert.AssertionError({
    message: `the server is ${state} (exit code ${server.exitCode()}):\n${server.log()}`,
  });
}

/** Three ports that were free a moment ago. */
export async function freePorts(): Promise<Ports> {
  const http = await freePortRange(3);
  return { http, grpc: http + 1, metrics: http + 2 };
}

/** A port that was free a moment ago. */
export function freePort(): Promise<number> {
  return freePortRange(1);
}

/**
 * The first of `count` successive free ports. They lie below those that the system gives to clients, and are drawn at random: nobody
 * else takes them between this look and the server's start, as happens now and then to a port that the system chose.
 */
export async function freePortRange(count: number): Promise<number> {
  const [lowest, highest] = [10_000, 32_000];
  for (let tried = 0; tried < MAX_PORT_TRIES; tried += 1) {
    const first = randomInt(lowest, highest - count);
    if (await areFree(first, count)) return first;
  }
  throw new Error(`no ${count} successive free ports between ${lowest} and ${highest}`);
}

async function areFree(first: number, count: number): Promise<boolean> {
  const tries = await Promise.allSettled(Array.from({ length: count }, (_, i) => hold(first + i)));
  const held = tries.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  await Promise.all(held.map(({ release }) => release()));
  return held.length === count;
}

function hold(port: number): Promise<{ release(): Promise<void> }> {
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, HOST, () => resolve({ release: () => new Promise((done) => server.close(() => done())) }));
  });
}
