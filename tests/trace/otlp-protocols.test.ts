/** Spans of the real server over each protocol of OTLP, to a collector by OpenTelemetry's own messages and to the real collector. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { pythonVenv } from "../python-venv.ts";
import { longTestsReason } from "../support/long-tests.ts";
import { eventually } from "../support/probe-server.ts";
import { infer, startTracedServer } from "./trace-models.ts";

const options = { timeout: 240_000 };
const venv = await pythonVenv(["opentelemetry-proto==1.38.0", "grpcio==1.76.0"], "otlp");
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const TOOLS = join(ROOT, ".cache/tools");
const BUILDER = "go.opentelemetry.io/collector/cmd/builder@v0.130.0";

interface Export {
  readonly protocol: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly resource: Readonly<Record<string, string>>;
  readonly spans: readonly {
    readonly name: string;
    readonly traceId: string;
    readonly spanId: string;
    readonly parentSpanId: string;
    readonly nanoseconds: number;
    readonly attributes: Readonly<Record<string, unknown>>;
    readonly events: readonly string[];
  }[];
}

interface Peer {
  readonly ports: { readonly grpc: number; readonly http: number };
  readonly exports: readonly Export[];
}

/** Ends with the test: its standard input closes. */
async function startPeer(t: TestContext, python: string): Promise<Peer> {
  const child = spawn(python, [fileURLToPath(new URL("collector.py", import.meta.url))], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  t.after(() => endOf(child));
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
  await eventually(
    async () => lines.length,
    (count) => count > 0,
  );
  const ports = JSON.parse(lines[0] ?? "") as Peer["ports"];
  return {
    ports,
    get exports() {
      return lines.slice(1).map((line) => JSON.parse(line) as Export);
    },
  };
}

async function endOf(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGKILL");
  await exit;
}

const TRACED = ["mode=opentelemetry", "level=TIMESTAMPS", "rate=1"];

async function sendTrace(t: TestContext, settings: readonly string[], env: Readonly<Record<string, string>>) {
  const flags = [...TRACED, ...settings].map((setting) => `--trace-config=${setting}`);
  const server = await startTracedServer(t, flags, { env });
  await infer(server, "same", { id: "r7" });
  await server.stop();
  assert.doesNotMatch(server.log(), /are lost/);
}

for (const [protocol, compression] of [
  ["grpc", "none"],
  ["grpc", "gzip"],
  ["http/protobuf", "none"],
  ["http/protobuf", "gzip"],
] as const) {
  test(`spans over ${protocol} with compression ${compression}, by variables of the environment`, {
    ...options,
    skip: venv.reason ?? false,
  }, async (t) => {
    const peer = await startPeer(t, venv.python ?? "");
    await sendTrace(t, [], {
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${protocol === "grpc" ? peer.ports.grpc : peer.ports.http}`,
      OTEL_EXPORTER_OTLP_HEADERS: "x-tenant=a%20b",
      OTEL_EXPORTER_OTLP_COMPRESSION: compression,
      OTEL_RESOURCE_ATTRIBUTES: "zone=z",
    });
    await eventually(
      async () => peer.exports.length,
      (count) => count === 1,
    );
    const [sent] = peer.exports;
    assert.equal(sent?.protocol, protocol);
    assert.equal(sent?.headers["x-tenant"], "a b");
    assert.deepEqual(sent?.resource, { "service.name": "triton-inference-server", zone: "z" });
    const spans = sent?.spans ?? [];
    assert.deepEqual(
      spans.map(({ name }) => name),
      ["InferRequest", "same", "queue", "compute"],
    );
    assert.equal(new Set(spans.map(({ traceId }) => traceId)).size, 1);
    assert.deepEqual(
      spans.map(({ parentSpanId }) => spans.find(({ spanId }) => spanId === parentSpanId)?.name ?? ""),
      ["", "InferRequest", "same", "same"],
    );
    assert.deepEqual(spans[1]?.attributes, {
      "triton.model_name": "same",
      "triton.model_version": 1,
      "triton.trace_id": 1,
      "triton.trace_parent_id": 0,
      "triton.request_id": "r7",
    });
    assert.deepEqual(spans[1]?.events, ["QUEUE_START", "REQUEST_END", "REQUEST_START"]);
    assert.ok(spans.every(({ nanoseconds }) => nanoseconds >= 0));
  });
}

const noCollector =
  longTestsReason ?? (spawnSync("go", ["version"]).status === 0 ? false : "needs Go, to build the collector");

/** Built once, from the modules that builder.yaml names. */
function collectorProgram(): string {
  const program = join(TOOLS, "otelcol-build/otelcol");
  if (existsSync(program)) return program;
  const run = (command: string, argv: readonly string[], env: NodeJS.ProcessEnv = {}): void => {
    const { status, stderr } = spawnSync(command, argv, {
      cwd: fileURLToPath(new URL("otelcol/", import.meta.url)),
      env: { ...process.env, ...env },
      encoding: "utf8",
    });
    assert.equal(status, 0, stderr);
  };
  run("go", ["install", BUILDER], { GOBIN: TOOLS });
  run(join(TOOLS, "builder"), ["--config=builder.yaml"]);
  return program;
}

test("the real collector takes spans over every protocol, by the configuration in packaging", {
  timeout: 1_800_000,
  skip: noCollector,
}, async (t) => {
  const program = collectorProgram();
  const folder = mkdtempSync(join(tmpdir(), "nereid-otelcol-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const ports = { grpc: 24_317, http: 24_318 };
  const packaged = join(ROOT, "packaging/opentelemetry/collector.yaml");
  const override = join(folder, "test.yaml");
  writeFileSync(
    override,
    `receivers: { otlp: { protocols: { grpc: { endpoint: "127.0.0.1:${ports.grpc}" }, http: { endpoint: "127.0.0.1:${ports.http}" } } } }
exporters: { debug: { verbosity: detailed } }
service: { pipelines: { traces: { exporters: [debug] } }, telemetry: { metrics: { level: none } } }`,
  );
  assert.equal(spawnSync(program, ["validate", `--config=${packaged}`]).status, 0);
  const collector = spawn(program, [`--config=${packaged}`, `--config=${override}`], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  t.after(() => endOf(collector));
  let log = "";
  collector.stderr.on("data", (text: Buffer) => (log += text.toString()));
  await eventually(
    async () => log,
    (text) => text.includes("Everything is ready"),
  );
  for (const [protocol, compression] of [
    ["grpc", "gzip"],
    ["http/protobuf", "gzip"],
    ["http/json", "none"],
  ] as const) {
    const service = `${protocol}-${compression}`;
    await sendTrace(t, [`opentelemetry,protocol=${protocol}`, `opentelemetry,resource=service.name=${service}`], {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${protocol === "grpc" ? ports.grpc : ports.http}`,
      OTEL_EXPORTER_OTLP_COMPRESSION: compression,
    });
    await eventually(
      async () => log,
      (text) => text.includes(`service.name: Str(${service})`),
    );
  }
  assert.equal(log.match(/^ +Name +: InferRequest$/gm)?.length, 3, log);
  assert.equal(log.match(/triton\.model_name: Str\(same\)/g)?.length, 3, log);
});
