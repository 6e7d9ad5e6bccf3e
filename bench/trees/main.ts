/**
 * Tree and ONNX models here and behind FastAPI, in turns, with the same libraries, one thread a run. Writes
 * results/trees.md. Run: `npm run bench:trees -- --python=<interpreter>`.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { perceptron } from "../../tests/fakes/perceptron.ts";
import { type HttpRequest, startHttpLoad } from "../serving/http-load.ts";
import { measure, type Sample, summarize } from "../serving/measure.ts";
import { type BenchServer, startNereid } from "../serving/servers.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const FEATURES = 32;
const NUM_CLIENTS = 16;
const READY_TRIES = 600;
const { values } = parseArgs({
  options: {
    python: { type: "string", default: "python3" },
    seconds: { type: "string", default: "5" },
    rounds: { type: "string", default: "3" },
  },
});

interface Case {
  readonly name: string;
  readonly nereid: HttpRequest;
  readonly fastapi: HttpRequest;
}

const TENSOR_NAMES = { xgboost: ["input__0", "output__0"], onnx: ["X", "Y"] } as const;
type Model = keyof typeof TENSOR_NAMES;

function jsonCase(model: Model, numRows: number): Case {
  const [name] = TENSOR_NAMES[model];
  const rows = Array.from({ length: numRows }, (_, row) =>
    Array.from({ length: FEATURES }, (_value, i) => Math.fround(Math.sin(row * FEATURES + i))),
  );
  const inputs = [{ name, shape: [numRows, FEATURES], datatype: "FP32", data: rows.flat() }];
  const headers = [["Content-Type", "application/json"]] as const;
  const request = { method: "POST", headers } as const;
  return {
    name: `${model}, ${numRows} ${numRows === 1 ? "row" : "rows"}, JSON`,
    nereid: { ...request, path: `/v2/models/${model}/infer`, body: Buffer.from(JSON.stringify({ inputs })) },
    fastapi: { ...request, path: `/${model}/json`, body: Buffer.from(JSON.stringify(rows)) },
  };
}

function bytesCase(model: Model, numRows: number): Case {
  const [name, output] = TENSOR_NAMES[model];
  const data = new Uint8Array(Float32Array.from({ length: numRows * FEATURES }, (_, i) => Math.sin(i)).buffer);
  const parameters = { binary_data_size: data.byteLength };
  const head = Buffer.from(
    JSON.stringify({
      inputs: [{ name, shape: [numRows, FEATURES], datatype: "FP32", parameters }],
      outputs: [{ name: output, parameters: { binary_data: true } }],
    }),
  );
  const headers = [["Content-Type", "application/octet-stream"]] as const;
  const length = ["Inference-Header-Content-Length", String(head.length)] as const;
  return {
    name: `${model}, ${numRows} ${numRows === 1 ? "row" : "rows"}, bytes`,
    nereid: {
      method: "POST",
      path: `/v2/models/${model}/infer`,
      headers: [...headers, length],
      body: Buffer.concat([head, data]),
    },
    fastapi: { method: "POST", path: `/${model}/bytes`, headers, body: data },
  };
}

/** The repository; each model has two instances. */
function makeRepository(folder: string): void {
  const group = "instance_group [ { count: 2 kind: KIND_CPU } ]";
  const tensors = (input: string, output: string, width: number): string =>
    `max_batch_size: 1024 ${group} input [ { name: "${input}" data_type: TYPE_FP32 dims: [ ${FEATURES} ] } ]
     output [ { name: "${output}" data_type: TYPE_FP32 dims: [ ${width} ] } ]`;
  const parameters = { model_type: "xgboost_ubj", is_classifier: "true", predict_proba: "true", cpu_nthread: "1" };
  const listed = Object.entries(parameters).map(
    ([key, text]) => `{ key: "${key}" value: { string_value: "${text}" } }`,
  );
  for (const model of ["xgboost", "onnx"]) mkdirSync(join(folder, model, "1"), { recursive: true });
  const trees = `backend: "fil" ${tensors("input__0", "output__0", 1)} parameters [ ${listed.join(", ")} ]`;
  writeFileSync(join(folder, "xgboost", "config.pbtxt"), trees);
  writeFileSync(join(folder, "onnx", "config.pbtxt"), `backend: "onnxruntime" ${tensors("X", "Y", FEATURES)}`);
  writeFileSync(join(folder, "onnx", "1", "model.onnx"), perceptron("n", FEATURES));
  execFileSync(values.python, [join(ROOT, "bench/trees/train.py"), join(folder, "xgboost", "1")]);
}

async function startFastapi(folder: string, port: number): Promise<BenchServer> {
  const child = spawn(values.python, [join(ROOT, "bench/trees/fastapi_server.py"), folder, String(port)], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  for (let tries = 0; tries < READY_TRIES; tries++) {
    const isReady = await fetch(`http://127.0.0.1:${port}/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) break;
    await sleep(100);
  }
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    await once(child, "exit");
  };
  return { pid: child.pid ?? 0, httpPort: port, grpcPort: port, stop };
}

async function measureAll(cases: readonly Case[], nereid: BenchServer, fastapi: BenchServer): Promise<string[]> {
  const lines: string[] = [];
  for (const { name, ...requests } of cases) {
    const samples: Record<"nereid" | "fastapi", Sample[]> = { nereid: [], fastapi: [] };
    for (let round = 0; round < Number(values.rounds); round++) {
      for (const [kind, server] of [
        ["nereid", nereid],
        ["fastapi", fastapi],
      ] as const) {
        const start = (port: number): ReturnType<typeof startHttpLoad> =>
          startHttpLoad(port, requests[kind], NUM_CLIENTS);
        samples[kind].push(await measure({ name, protocol: "http", start }, server, Number(values.seconds)));
      }
    }
    const [ours, theirs] = [summarize(samples.nereid), summarize(samples.fastapi)];
    const ratio = (ours.requestsPerSecond / theirs.requestsPerSecond).toFixed(1);
    const cells = [ours, theirs].flatMap(({ requestsPerSecond, p99Us, cpuUs }) => [
      requestsPerSecond.toFixed(0),
      (p99Us / 1000).toFixed(1),
      cpuUs.toFixed(0),
    ]);
    lines.push(`| ${name} | ${cells.join(" | ")} | ${ratio} |`);
    console.log(lines.at(-1));
  }
  return lines;
}

function page(lines: readonly string[]): string {
  const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: ROOT, encoding: "utf8" }).trim();
  const date = new Date().toISOString().slice(0, 10);
  const machine = `${cpus().length} virtual cores (${cpus()[0]?.model ?? "unknown"})`;
  return `# Tree and ONNX models beside FastAPI

The same libraries compute the same models here and behind FastAPI on uvicorn, with one thread a run. One process each, measured in turns in
one run.

Commit ${commit}, ${date}, Node ${process.version}, ${machine}; load and servers share them.
Command: \`npm run bench:trees -- --seconds=${values.seconds} --rounds=${values.rounds}\`, with an interpreter that has xgboost, onnxruntime, fastapi and uvicorn.

\`xgboost\` has 200 trees on ${FEATURES} features, \`onnx\` two layers of ${FEATURES}. ${NUM_CLIENTS} connections; medians of ${values.rounds} rounds. CPU is that of the server for each request.
Other programs used the machine at the same time, so that rates vary by half; the CPU of a request is the steadier figure.

| case | requests/s | p99 ms | CPU us | FastAPI requests/s | p99 ms | CPU us | times |
| --- | --- | --- | --- | --- | --- | --- | --- |
${lines.join("\n")}
`;
}

const folder = mkdtempSync(join(tmpdir(), "nereid-bench-trees-"));
try {
  makeRepository(folder);
  process.env.NEREID_PYTHON = values.python;
  const nereid = await startNereid(ROOT, [folder], 8570);
  const fastapi = await startFastapi(folder, 8580);
  try {
    const models = ["xgboost", "onnx"] as const;
    const cases = models.flatMap((model) => [jsonCase(model, 1), bytesCase(model, 1), bytesCase(model, 64)]);
    writeFileSync(join(ROOT, "bench/results/trees.md"), page(await measureAll(cases, nereid, fastapi)));
  } finally {
    await nereid.stop();
    await fastapi.stop();
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
