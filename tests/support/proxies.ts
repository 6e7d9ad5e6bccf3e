/** HAProxy, nginx and Envoy in front of two servers, with the configurations of docs/proxies on ports of a test. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { debianProgram } from "./debian-programs.ts";
import { findEnvoy } from "./envoy.ts";
import { eventually } from "./probe-server.ts";
import { freePort, freePorts } from "./server-process.ts";

const CONFIGS = fileURLToPath(new URL("../../docs/proxies/", import.meta.url));
/** As they stand in the configurations. */
const PORTS = { entry: 8080, admin: 9901, servers: [8000, 8010] } as const;

export interface TriedProxy {
  readonly name: string;
  /** Undefined: why it cannot be tried here. */
  readonly reason: string | undefined;
  /** @throws AssertionError with what it said when it takes no requests */
  start(servers: readonly number[]): Promise<RunningProxy>;
}

export interface RunningProxy extends AsyncDisposable {
  readonly port: number;
}

interface Program {
  readonly program: string | undefined;
  readonly reason?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** All three, whether they are to be had or not. Never rejects. */
export async function proxies(): Promise<readonly TriedProxy[]> {
  const haproxy = debianProgram("haproxy", ["haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1"]);
  return [
    proxyOf("HAProxy", haproxy, "haproxy.cfg", (file) => ["-db", "-f", file]),
    proxyOf("nginx", debianProgram("nginx", ["nginx"]), "nginx.conf", (file, folder) => {
      return ["-e", "stderr", "-p", folder, "-c", file, "-g", "daemon off;"];
    }),
    proxyOf("Envoy", await findEnvoy(), "envoy.yaml", (file) => {
      return ["-c", file, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"];
    }),
  ];
}

function proxyOf(
  name: string,
  { program, reason, env = process.env }: Program,
  config: string,
  flagsOf: (file: string, folder: string) => readonly string[],
): TriedProxy {
  return {
    name,
    reason,
    async start(servers) {
      assert.ok(program !== undefined, reason);
      const folder = mkdtempSync(join(tmpdir(), "nereid-proxy-"));
      const port = await freePort();
      const { metrics: admin } = await freePorts();
      const numbers = new Map([
        [PORTS.entry, port],
        [PORTS.admin, admin],
        ...PORTS.servers.map((each, i): [number, number] => [each, servers[i] ?? 0]),
      ] as [number, number][]);
      const text = readFileSync(join(CONFIGS, config), "utf8").replace(/\b(?:8080|9901|8000|8010)\b/g, (each) => {
        return String(numbers.get(Number(each)));
      });
      const file = join(folder, config);
      writeFileSync(file, text);
      const child = spawn(program, flagsOf(file, folder), { cwd: folder, env, stdio: ["ignore", "ignore", "pipe"] });
      return await untilServing(child, port, folder);
    },
  };
}

async function untilServing(child: ChildProcess, port: number, folder: string): Promise<RunningProxy> {
  let said = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (said += text));
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  const proxy = {
    port,
    async [Symbol.asyncDispose]() {
      process.off("exit", kill);
      if (child.exitCode === null && child.signalCode === null) {
        const ended = once(child, "exit");
        child.kill("SIGTERM");
        await ended;
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
  try {
    const status = (): Promise<number> =>
      fetch(`http://127.0.0.1:${port}/v2/health/ready`).then(
        (answer) => answer.status,
        () => 0,
      );
    await eventually(status, (code) => code === 200 || child.exitCode !== null);
    assert.equal(child.exitCode, null, said);
  } catch (error) {
    await proxy[Symbol.asyncDispose]();
    throw error;
  }
  return proxy;
}
