/** A thousand models in one server: start, memory, index, metrics page, load and unload of one, polls. */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type InsideServer, insideServer } from "../../tests/inside/inside-server.ts";
import { EXAMPLES } from "../../tests/support/model-repository.ts";
import { eventually } from "../../tests/support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../../tests/support/server-process.ts";
import { kib, mib, type Row, rowOf, watched } from "./watched.ts";

const MANY = 1000;
const POLL_SECONDS = 5;
const INT32_REQUEST = JSON.stringify({
  inputs: ["INPUT0", "INPUT1"].map((name) => ({ name, datatype: "INT32", shape: [1, 16], data: Array(16).fill(1) })),
});

const IDENTITY = `backend: "identity"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 16 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 16 ] } ]
dynamic_batching { }
`;

type Kind = "identity" | "onnx";

function writeRepository(kind: Kind): string {
  const folder = mkdtempSync(join(tmpdir(), "nereid-scale-"));
  const config = readFileSync(join(EXAMPLES, "simple/config.pbtxt"), "utf8");
  for (let i = 0; i < MANY; i += 1) {
    const model = join(folder, `model_${i}`);
    mkdirSync(join(model, "1"), { recursive: true });
    writeFileSync(
      join(model, "config.pbtxt"),
      kind === "identity" ? IDENTITY : config.replace('"simple"', `"model_${i}"`),
    );
    if (kind === "onnx") copyFileSync(join(EXAMPLES, "simple/1/model.onnx"), join(model, "1/model.onnx"));
  }
  return folder;
}

export async function manyModels(kind: Kind): Promise<Row[]> {
  const folder = writeRepository(kind);
  const socketFolder = mkdtempSync(join(tmpdir(), "nereid-scale-inside-"));
  const inside = await insideServer(socketFolder);
  const start = async (flags: readonly string[]): Promise<{ server: ServerProcess; startMs: number }> => {
    const began = performance.now();
    const server = await startServerProcess({ repositories: [folder], flags, ...inside });
    return { server, startMs: performance.now() - began };
  };
  const empty = await start(["--model-control-mode=explicit"]);
  const emptyBytes = (await inside.memory()).residentBytes;
  await empty.server.stop();
  const { server, startMs } = await start(["--model-control-mode=explicit", "--load-model=*"]);
  const rows: Row[] = [];
  try {
    const { longestMs, longestCpuMs } = await inside.delay();
    const { residentBytes } = await inside.memory();
    const each = kib((residentBytes - emptyBytes) / MANY);
    const memory = `${mib(residentBytes)}, without models ${mib(emptyBytes)}: ${each} a model`;
    const label = `${MANY} ${kind} models`;
    rows.push({ operation: `start with ${label}`, wallMs: startMs, longestMs, longestCpuMs, note: memory });
    rows.push(...(await operatorPages(inside, server, label)), ...(await changeOne(inside, server, folder, label)));
  } finally {
    await server.stop();
  }
  if (kind === "identity") rows.push(...(await polls(inside, start, folder)));
  rmSync(folder, { recursive: true });
  rmSync(socketFolder, { recursive: true });
  return rows;
}

async function operatorPages(inside: InsideServer, server: ServerProcess, label: string): Promise<Row[]> {
  const pages: readonly [name: string, method: string, url: string][] = [
    ["repository index", "POST", `${server.baseUrl}/v2/repository/index`],
    ["statistics of all models", "GET", `${server.baseUrl}/v2/models/stats`],
    ["metrics page", "GET", `http://127.0.0.1:${server.metrics}/metrics`],
    ["readiness", "GET", `${server.baseUrl}/v2/health/ready`],
    ["OpenAI's list of models", "GET", `${server.baseUrl}/v1/models`],
    ["OpenAPI description", "GET", `${server.baseUrl}/openapi.json`],
  ];
  const rows: Row[] = [];
  for (const [name, method, url] of pages) {
    const page = await watched(inside, async () => (await fetch(url, { method })).arrayBuffer());
    rows.push(rowOf(`${name}, ${label}`, page, `${kib(page.result.byteLength)}`));
  }
  return rows;
}

async function changeOne(inside: InsideServer, server: ServerProcess, folder: string, label: string): Promise<Row[]> {
  const rows: Row[] = [];
  const model = "model_500";
  utimesSync(join(folder, model, "config.pbtxt"), 1, 1);
  for (const action of ["load", "unload", "load"]) {
    const url = `${server.baseUrl}/v2/repository/models/${model}/${action}`;
    const one = await watched(inside, async () => (await fetch(url, { method: "POST" })).status);
    if (one.result !== 200) throw new Error(`${action} of ${model}: status ${one.result}`);
    rows.push(rowOf(`${action} of one of ${label}`, one));
  }
  const infers = await watched(inside, async () => {
    for (let i = 0; i < MANY; i += 1) {
      const url = `${server.baseUrl}/v2/models/model_${i}/infer`;
      const body = label.includes("onnx") ? INT32_REQUEST : INT32_REQUEST.replace(/,\{"name":"INPUT1".*\}\]/, "]");
      const response = await fetch(url, { method: "POST", body });
      if (response.status !== 200) throw new Error(await response.text());
      await response.arrayBuffer();
    }
  });
  rows.push(rowOf(`one request of each of ${label}`, infers));
  return rows;
}

async function polls(
  inside: InsideServer,
  start: (flags: readonly string[]) => Promise<{ server: ServerProcess; startMs: number }>,
  folder: string,
): Promise<Row[]> {
  const { server } = await start(["--model-control-mode=poll", "--repository-poll-secs=1"]);
  try {
    const quiet = await watched(inside, () => sleep(POLL_SECONDS * 1000));
    const changed = await watched(inside, async () => {
      writeFileSync(join(folder, "model_7/config.pbtxt"), IDENTITY.replace("[ 16 ] } ]\nout", "[ -1 ] } ]\nout"));
      await eventually(
        async () => (await fetch(`${server.baseUrl}/v2/models/model_7/config`)).text(),
        (text) => text.includes('"dims":[-1]'),
      );
    });
    return [
      rowOf(`${POLL_SECONDS} seconds of polls, one a second, ${MANY} identity models`, quiet),
      rowOf(`a changed model is found among ${MANY}`, changed),
    ];
  } finally {
    await server.stop();
  }
}
