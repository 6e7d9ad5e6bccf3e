/** `nereid bench` as users call it, against the built server. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const NEREID = join(ROOT, "server/bin/nereid.cjs");
/** A result of three short windows, steady or not: no test asserts how fast the machine is. */
const SHORT = ["-p", "150", "-r", "3", "-s", "100000", "--max-threads", "2"];
const folder = mkdtempSync(join(tmpdir(), "nereid-bench-"));
let server: ServerProcess;

before(async () => {
  server = await startServerProcess({
    repositories: [join(ROOT, "examples/model_repository")],
    flags: ["--allow-client-shm=true", "--model-control-mode=explicit", "--load-model=simple"],
  });
});

after(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function bench(...flags: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, [NEREID, "bench", ...flags], { timeout: 240_000 }, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === "number" ? error.code : error === null ? 0 : -1, stdout, stderr });
    });
  });
}

interface Report {
  readonly results: readonly Readonly<Record<string, unknown>>[];
}

async function measured(...flags: string[]): Promise<Report["results"]> {
  const path = join(folder, "report.json");
  const { code, stdout, stderr } = await bench("-m", "simple", ...SHORT, "--report-json", path, ...flags);
  assert.equal(code, 0, stdout + stderr);
  return (JSON.parse(readFileSync(path, "utf8")) as Report).results;
}

for (const [name, flags] of [
  ["HTTP, binary", []],
  ["HTTP, JSON", ["--input-tensor-format=json", "--output-tensor-format=json", "-b", "3"]],
  ["HTTP, shared memory", ["--shared-memory=system"]],
  ["HTTP by a schedule", ["--request-rate-range=200", "--request-distribution=poisson"]],
  ["gRPC", ["-i", "grpc"]],
  ["gRPC, streams", ["-i", "gRPC", "--streaming"]],
  ["gRPC, shared memory", ["-i", "grpc", "--shared-memory=system"]],
] as const) {
  test(`nereid bench measures ${name}`, async () => {
    const url = `127.0.0.1:${name.startsWith("gRPC") ? server.grpc : server.http}`;
    const [result = {}] = await measured("-u", url, ...flags);
    assert.ok(Number(result.request_count) > 0);
    assert.equal(result.failed_count, 0);
    const { execution_count } = result.server as { readonly execution_count: number };
    assert.ok(execution_count >= Number(result.request_count));
  });
}

test("nereid bench writes a CSV with the columns of perf_analyzer, and a page that loads nothing", async () => {
  const [csv, html] = [join(folder, "r.csv"), join(folder, "r.html")];
  const range = ["--concurrency-range", "1:3:2", "-f", csv, "--html", html];
  const results = await measured("-u", `127.0.0.1:${server.http}`, ...range);
  assert.deepEqual(
    results.map(({ concurrency }) => concurrency),
    [1, 3],
  );
  const [head, ...lines] = readFileSync(csv, "utf8").trim().split("\n");
  const expected =
    "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency";
  assert.equal(head, expected);
  assert.deepEqual(
    lines.map((line) => line.split(",")[0]),
    ["1", "3"],
  );
  const page = readFileSync(html, "utf8");
  assert.equal(page.match(/<svg /g)?.length, 5);
  assert.doesNotMatch(page, /<script|src=|href=|NaN/);
});

test("nereid bench --against prints ratios with confidence intervals", async () => {
  const url = `127.0.0.1:${server.http}`;
  const { code, stdout, stderr } = await bench("-m", "simple", "-u", url, "--against", url, "--rounds=2", "-p", "150");
  assert.equal(code, 0, stderr);
  assert.match(stdout, /throughput +\d+\.\d+ +\(95 % confidence: \d+\.\d+ to \d+\.\d+\)/);
});

for (const [flags, code, expected] of [
  [["-m", "nope"], 1, /unknown model: 'nope'/],
  [["-m", "simple", "-b", "100000"], 1, /expected at most the max_batch_size of 'simple'/],
  [["-m", "simple", "--concurrency-range", "4:1"], 2, /--concurrency-range is start:end:step/],
  [["-m", "simple", "--streaming"], 2, /--streaming needs -i grpc/],
  [["-m", "simple", "--shape", "INPUT0"], 2, /--shape is name:1,2,3/],
  [["-m", "simple", "--input-data", "/nonexistent.json"], 1, /\/nonexistent\.json/],
  [["-m", "simple", "--binary-search"], 2, /--binary-search needs --latency-threshold/],
] as const) {
  test(`nereid bench ${flags.join(" ")} ends with ${code} and the reason`, async () => {
    const ended = await bench("-u", `127.0.0.1:${server.http}`, ...flags);
    assert.equal(ended.code, code, ended.stderr);
    assert.match(ended.stderr, expected);
  });
}
