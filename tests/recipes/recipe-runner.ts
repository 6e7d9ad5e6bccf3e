/**
 * Runs the commands of a recipe in docs/recipes as a reader would: the blocks marked `sh` in order, in one empty folder, with the
 * programs of this repository. Only ports differ from the page, so that recipes can run beside anything else.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { freePorts } from "../support/server-process.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const READY_TIMEOUT_MS = 240_000;
const HOSTS = ["http", "grpc", "metrics"].map((name) => `--${name}-address=127.0.0.1`).join(" ");

interface Block {
  /** Info string of the fence: `sh`, `sh server`, `json` … */
  readonly kind: string;
  readonly text: string;
}

export interface Recipe extends AsyncDisposable {
  readonly folder: string;
  /** Runs all blocks; gives what the requests to the server answered, in order. */
  run(): Promise<readonly string[]>;
}

/** `env` is added to that of the commands; `ports` are those that stand on the page: HTTP, gRPC, metrics. */
export async function openRecipe(
  name: string,
  options: { readonly env?: Readonly<Record<string, string>>; readonly ports?: readonly [number, number, number] } = {},
): Promise<Recipe> {
  const folder = mkdtempSync(join(tmpdir(), "nereid-recipe-"));
  const [http, grpc, metrics] = options.ports ?? [8000, 8001, 8002];
  const free = await freePorts();
  const moved = new Map([
    [`${http}`, `${free.http}`],
    [`${grpc}`, `${free.grpc}`],
    [`${metrics}`, `${free.metrics}`],
  ]);
  const blocks = blocksOf(readFileSync(join(ROOT, "docs", "recipes", `${name}.md`), "utf8")).map(({ kind, text }) => ({
    kind,
    text: text.replace(/\b\d{4}\b/g, (number) => moved.get(number) ?? number),
  }));
  const env = {
    ...process.env,
    ...options.env,
    PATH: `${writePrograms(folder, free)}:${process.env.PATH}`,
    HF_HOME: join(folder, ".hf"),
  };
  let server: ChildProcess | undefined;
  const stop = async (): Promise<void> => {
    if (server?.exitCode !== null || server.pid === undefined) return;
    const ended = once(server, "exit");
    process.kill(-server.pid, "SIGTERM");
    await ended;
  };
  return {
    folder,
    async run() {
      const answers: string[] = [];
      for (const { kind, text } of blocks) {
        if (kind === "sh server") {
          await stop();
          server = await startServer(text, folder, env, free.http);
        } else if (kind === "sh") {
          const output = await runBlock(text, folder, env);
          if (text.startsWith("curl ")) answers.push(output);
        }
      }
      return answers;
    },
    async [Symbol.asyncDispose]() {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function blocksOf(page: string): Block[] {
  return [...page.matchAll(/^```(.+)\n([\s\S]*?)\n```$/gm)].map(([, kind = "", text = ""]) => ({
    kind: kind.trim(),
    text,
  }));
}

/** `nereid` and `tritonserver`, listening on this machine only and on ports of their own. */
function writePrograms(
  folder: string,
  { http, grpc, metrics }: { http: number; grpc: number; metrics: number },
): string {
  const bin = join(folder, ".bin");
  mkdirSync(bin);
  const ports = `--http-port=${http} --grpc-port=${grpc} --metrics-port=${metrics}`;
  const node = `exec "${process.execPath}" "${ROOT}server/bin/nereid.cjs"`;
  const cases = `case "$1" in serve) shift; ${node} serve ${ports} ${HOSTS} "$@";; launch) ${node} "$@" -- ${ports} ${HOSTS};; *) ${node} "$@";; esac`;
  const server = `exec "${process.execPath}" "${ROOT}server/bin/tritonserver.cjs" ${ports} ${HOSTS} "$@"`;
  for (const [name, line] of [
    ["nereid", cases],
    ["tritonserver", server],
  ] as const) {
    writeFileSync(join(bin, name), `#!/bin/sh\n${line}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  return bin;
}

async function runBlock(text: string, cwd: string, env: NodeJS.ProcessEnv): Promise<string> {
  const child = spawn("bash", ["-euo", "pipefail", "-c", text], { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (stdout += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => (stderr += chunk));
  const [code] = (await once(child, "close")) as [number | null];
  assert.equal(code, 0, `${text}\nended with ${code}:\n${stdout}${stderr}`);
  return stdout;
}

/** In a process group of its own, so that the shell around it ends with it. */
async function startServer(text: string, cwd: string, env: NodeJS.ProcessEnv, port: number): Promise<ChildProcess> {
  const child = spawn("bash", ["-euc", text], { cwd, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  let log = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => (log += chunk));
  const deadline = Date.now() + READY_TIMEOUT_MS;
  while (Date.now() < deadline) {
    assert.equal(child.exitCode, null, `${text}\nended:\n${log}`);
    const isReady = await fetch(`http://127.0.0.1:${port}/v2/health/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) return child;
    await sleep(100);
  }
  if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  throw new assert.AssertionError({ message: `${text}\nis not ready:\n${log}` });
}
