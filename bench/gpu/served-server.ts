/** A server of the installed program, as a measurement on a machine with GPUs starts and ends it. */
import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

const STOP_TIMEOUT_MS = 15_000;

export interface Server {
  readonly child: ChildProcess;
  readonly lines: string[];
  stop(): Promise<void>;
}

export interface ServerPlan {
  readonly program: string;
  readonly repository: string;
  /** Port of HTTP; gRPC and metrics take the next two. */
  readonly port: number;
  readonly readyTimeoutMs: number;
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** @throws Error with what the server last said when it does not get ready */
export async function startServer(plan: ServerPlan): Promise<Server> {
  const ports = ["http", "grpc", "metrics"].flatMap((name, i) => [
    `--${name}-port=${plan.port + i}`,
    `--${name}-address=127.0.0.1`,
  ]);
  const startMs = performance.now();
  const argv = [plan.program, "serve", `--model-repository=${plan.repository}`, ...ports, ...(plan.flags ?? [])];
  const child = spawn(process.execPath, argv, {
    env: { ...process.env, ...plan.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const lines: string[] = [];
  const keep = (text: string): number => lines.push(...text.split("\n").filter((line) => line !== ""));
  child.stdout.setEncoding("utf8").on("data", keep);
  child.stderr.setEncoding("utf8").on("data", keep);
  while (!(await isReady(plan.port))) {
    if (child.exitCode !== null || performance.now() - startMs > plan.readyTimeoutMs) {
      child.kill("SIGKILL");
      throw new Error(`the server did not get ready:\n${lines.slice(-30).join("\n")}`);
    }
    await sleep(50);
  }
  console.log(`ready after ${((performance.now() - startMs) / 1000).toFixed(1)} s`);
  return { child, lines, stop: () => stop(child) };
}

export async function isReady(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/v2/health/ready`).then(
    ({ ok }) => ok,
    () => false,
  );
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(timer);
  }
  console.log(`ended with ${child.exitCode ?? child.signalCode}`);
}
