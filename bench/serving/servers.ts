/** The processes that are measured: the built server, and Node's own servers beside it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const HOST = "127.0.0.1";
const READY_TIMEOUT_MS = 60_000;

export interface DrivenServer {
  /** Undefined: another machine's process; its CPU time is not measured. */
  readonly pid: number | undefined;
  readonly host?: string;
  readonly httpPort: number;
  readonly grpcPort: number;
  stop(): Promise<void>;
}

/** A server that was started here. */
export interface BenchServer extends DrivenServer {
  readonly pid: number;
}

/** The built server of a checkout. `nodeFlags`: of the process, for profiles. */
export async function startNereid(
  root: string,
  repositories: readonly string[],
  basePort: number,
  nodeFlags: readonly string[] = [],
  serverFlags: readonly string[] = [],
): Promise<BenchServer> {
  const child = spawn(
    process.execPath,
    [
      ...nodeFlags,
      join(root, "server/bin/tritonserver.cjs"),
      ...repositories.map((folder) => `--model-repository=${folder}`),
      ...["http", "grpc", "metrics"].flatMap((name, k) => [
        `--${name}-port=${basePort + k}`,
        `--${name}-address=${HOST}`,
      ]),
      ...serverFlags,
    ],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
  await untilReady(child, `http://${HOST}:${basePort}/v2/health/ready`);
  return { pid: child.pid ?? 0, httpPort: basePort, grpcPort: basePort + 1, stop: () => stop(child) };
}

/** A server that runs already: NAME,http://HOST:PORT,GRPC_PORT[,PID]. @throws Error for another form */
export function parseServer(text: string): DrivenServer & { readonly name: string } {
  const [name = "", url = "", grpc = "", pid] = text.split(",");
  const [, host = "", http = ""] = /^http:\/\/([^/:]+):(\d+)\/?$/.exec(url) ?? [];
  const isNumber = (part: string): boolean => /^\d+$/.test(part);
  if (name === "" || host === "" || !isNumber(grpc) || (pid !== undefined && !isNumber(pid))) {
    throw new Error(
      `--server: expected NAME,http://HOST:PORT,GRPC_PORT or the same with a PID behind it, got '${text}'`,
    );
  }
  const process = pid === undefined ? undefined : Number(pid);
  return { name, host, httpPort: Number(http), grpcPort: Number(grpc), pid: process, stop: async () => undefined };
}

export async function startReference(
  kind: "http" | "grpc-js" | "grpc-js-infer" | "http2",
  port: number,
): Promise<BenchServer> {
  const child = spawn(process.execPath, ["--import", "tsx", path("reference-server.ts"), kind, String(port)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (child.stdout === null) throw new Error("no pipe to the reference server");
  await once(child.stdout, "data");
  return { pid: child.pid ?? 0, httpPort: port, grpcPort: port, stop: () => stop(child) };
}

async function untilReady(child: ChildProcess, url: string): Promise<void> {
  const deadlineMs = Date.now() + READY_TIMEOUT_MS;
  while (Date.now() < deadlineMs && child.exitCode === null) {
    const isReady = await fetch(url).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) return;
    await sleep(50);
  }
  child.kill();
  throw new Error(`the server is not ready at ${url}; its messages are above`);
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  child.kill("SIGTERM");
  await once(child, "exit");
}

function path(relative: string): string {
  return fileURLToPath(new URL(relative, import.meta.url));
}
