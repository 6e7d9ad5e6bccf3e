/**
 * The walk of docs/first-five-minutes.md: its commands are run as they stand there, in the built checkout, and their output is what the
 * page shows. `node --import tsx tools/first-five-minutes.ts` writes the page; a test compares. Ports and what differs from run to run
 * are replaced.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

export interface WalkPorts {
  readonly http: number;
  readonly grpc: number;
  readonly metrics: number;
}

interface Step {
  readonly text: string;
  readonly command: string;
  /** Stays until the end of the walk; shown up to the line of readiness. */
  readonly isServer?: boolean;
}

export const WALK_PAGE: string = fileURLToPath(new URL("../docs/first-five-minutes.md", import.meta.url));
const ROOT = fileURLToPath(new URL("..", import.meta.url));
const MODEL = "examples/nereid-tiny/language_model";
const READY_TIMEOUT_MS = 240_000;
/** The default ports, which users have. */
const SHOWN: WalkPorts = { http: 8000, grpc: 8001, metrics: 8002 };

const STEPS: readonly Step[] = [
  {
    text: "Ask a model by its name, here a folder of this repository. The answer is all that standard output gets.",
    command: `nereid run ${MODEL} "Once upon a time" --temperature 0 --max_tokens 8`,
  },
  { text: "See its facts:", command: `nereid show ${MODEL} | head -3` },
  {
    text: "Serve it, on all APIs at one port. This stays in a terminal of its own.",
    command: `nereid serve ${MODEL}`,
    isServer: true,
  },
  {
    text: "Ask it by Triton's protocol:",
    command: `curl -s localhost:8000/v2/models/ensemble/generate -d '{"text_input": "Once upon a time", "max_tokens": 8, "temperature": 0}'`,
  },
  {
    text: "Ask it by OpenAI's protocol:",
    command: `curl -s localhost:8000/v1/completions -d '{"model": "${MODEL}", "prompt": "Once upon a time", "max_tokens": 2, "temperature": 0}'`,
  },
  { text: "End the server, from any terminal:", command: `nereid stop ${MODEL}` },
];

/** The whole page. @throws Error with the output when a command fails */
export async function walkPage(ports: WalkPorts): Promise<string> {
  const home = mkdtempSync(join(tmpdir(), "nereid-walk-"));
  const started: ChildProcess[] = [];
  try {
    const parts: string[] = [HEAD];
    for (const { text, command, isServer = false } of STEPS) {
      const output = isServer ? await serve(command, home, ports, started) : await run(command, home, ports);
      parts.push(`${text}\n\n\`\`\`text\n$ ${command}\n${shown(output, ports)}\`\`\`\n`);
    }
    return `${parts.join("\n")}\n${TAIL}`;
  } finally {
    for (const child of started.filter(({ exitCode }) => exitCode === null)) child.kill("SIGKILL");
    rmSync(home, { recursive: true, force: true });
  }
}

const HEAD = `# The first five minutes

Made by \`tools/first-five-minutes.ts\`, which runs these commands in a built checkout (\`npm ci && npm run build\`, then
\`alias nereid="npx nereid"\`). Do not edit: a test compares the page with a run. Figures that differ from run to run stand as \`…\`.
`;
const TAIL = `Next: [a model of the hub](commands/serve.md#names), [chats in the terminal](commands/run.md), [clients](../examples/README.md),
[production](operating.md).
`;

/** `nereid` of this checkout, on ports of the walk and on loopback. */
function environment(home: string, { http, grpc, metrics }: WalkPorts): NodeJS.ProcessEnv {
  const program = join(home, "nereid");
  const place = ["http", "grpc", "metrics"].map((name) => `--${name}-address=127.0.0.1`).join(" ");
  const flags = `--http-port=${http} --grpc-port=${grpc} --metrics-port=${metrics} ${place}`;
  const nereid = `exec '${process.execPath}' '${ROOT}server/bin/nereid.cjs'`;
  writeFileSync(program, `#!/bin/sh\n[ "$1" = serve ] && ${nereid} "$@" ${flags}\n${nereid} "$@"\n`);
  chmodSync(program, 0o755);
  return {
    ...process.env,
    PATH: `${home}:${process.env.PATH}`,
    XDG_CACHE_HOME: join(home, "cache"),
    HF_HUB_OFFLINE: "1",
  };
}

async function run(command: string, home: string, ports: WalkPorts): Promise<string> {
  const env = environment(home, ports);
  const child = spawn("bash", ["-c", command.replaceAll("8000", String(ports.http))], {
    cwd: ROOT,
    env,
    stdio: ["ignore", "pipe", "pipe"], // a question of `run` would go on until the end of its input
  });
  let output = "";
  let errors = "";
  child.stdout.on("data", (text: Buffer) => (output += text.toString()));
  child.stderr.on("data", (text: Buffer) => (errors += text.toString()));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`${command}: expected exit code 0, got ${code}\n${output}${errors}`);
  return output;
}

async function serve(command: string, home: string, ports: WalkPorts, started: ChildProcess[]): Promise<string> {
  const stdio: ["ignore", "pipe", "ignore"] = ["ignore", "pipe", "ignore"];
  const child = spawn("bash", ["-c", `exec ${command}`], { cwd: ROOT, env: environment(home, ports), stdio });
  started.push(child);
  let output = "";
  child.stdout.on("data", (text: Buffer) => (output += text.toString()));
  for (const endMs = Date.now() + READY_TIMEOUT_MS; !output.includes("Ctrl-C stops it"); await sleep(50)) {
    if (child.exitCode !== null || Date.now() > endMs) throw new Error(`${command}: not ready\n${output}`);
  }
  return output;
}

function shown(output: string, ports: WalkPorts): string {
  const text = output.endsWith("\n") ? output : `${output}\n`;
  const [http, grpc, metrics] = [ports.http, ports.grpc, ports.metrics].map(String) as [string, string, string];
  return text
    .replaceAll(http, String(SHOWN.http))
    .replaceAll(grpc, String(SHOWN.grpc))
    .replaceAll(metrics, String(SHOWN.metrics))
    .replaceAll("127.0.0.1", "localhost")
    .replaceAll(ROOT, "/home/me/nereid/")
    .replace(/\(process \d+\)/g, "(process …)")
    .replace(/"(id)":"[^"]*"/g, '"$1":"…"')
    .replace(/"(created)":\d+/g, '"$1":…');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(WALK_PAGE, await walkPage({ http: 18_500, grpc: 18_501, metrics: 18_502 }));
}
