/** Limits of connections, for each listener: those of one peer that send no whole request, and all of them. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, type TestContext, test } from "node:test";
import { connect as connectTls } from "node:tls";
import { eventually } from "../../../tests/support/probe-server.ts";
import { parseServerFlags } from "../config/flags/parse-server-flags.ts";
import type { ServerOptions } from "../config/flags/server-options.ts";
import { MetricRegistry } from "../observe/metrics.ts";
import { FakeModelServer } from "../protocol/grpc/fake-model-server.test-support.ts";
import { TEST_CERT, TEST_KEY } from "../protocol/grpc/test-certificate.test-support.ts";
import { TestLog } from "../protocol/grpc/test-peer.test-support.ts";
import { PeerConnections } from "../protocol/peer-connections.ts";
import { frontendsOf } from "./frontends.ts";
import type { Protocol } from "./listener-access.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-limits-"));
after(() => rmSync(folder, { recursive: true }));
const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
writeFileSync(certFile, TEST_CERT);
writeFileSync(keyFile, TEST_KEY);

interface ListenerRow {
  readonly name: string;
  readonly protocol: Protocol;
  readonly flags: readonly string[];
  readonly isTls?: boolean;
  /** Starts HTTP/2, and no call. */
  readonly isHttp2?: boolean;
}

const HTTPS = ["--http-use-ssl=true", `--http-server-cert=${certFile}`, `--http-server-key=${keyFile}`];
const GRPCS = ["--grpc-use-ssl=true", `--grpc-server-cert=${certFile}`, `--grpc-server-key=${keyFile}`];
const SAGEMAKER = ["--allow-sagemaker=true", "--sagemaker-port=0"];
const VERTEX = ["--allow-vertex-ai=true", "--vertex-ai-port=0"];

const LISTENERS: readonly ListenerRow[] = [
  { name: "HTTP", protocol: "http", flags: [] },
  { name: "HTTPS", protocol: "http", flags: HTTPS, isTls: true },
  { name: "gRPC", protocol: "grpc", flags: [], isHttp2: true },
  { name: "gRPC over TLS", protocol: "grpc", flags: GRPCS, isTls: true, isHttp2: true },
  { name: "one port, HTTP/1.1", protocol: "http", flags: ["--one-port=true"] },
  { name: "one port, HTTP/2", protocol: "http", flags: ["--one-port=true"], isHttp2: true },
  { name: "one port, HTTP/1.1 over TLS", protocol: "http", flags: ["--one-port=true", ...HTTPS], isTls: true },
  {
    name: "one port, HTTP/2 over TLS",
    protocol: "http",
    flags: ["--one-port=true", ...HTTPS],
    isTls: true,
    isHttp2: true,
  },
  { name: "OpenAI", protocol: "openai", flags: ["--openai-port=0"] },
  { name: "SageMaker", protocol: "sagemaker", flags: SAGEMAKER },
  { name: "Vertex AI", protocol: "vertex_ai", flags: VERTEX },
  { name: "metrics", protocol: "metrics", flags: [] },
];

const MAX_WAITING = 4;
const MANY = 1000;
const HALF_HEAD = "POST /v2/models/x/infer HTTP/1.1\r\nHost: x\r\n";
const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

function optionsOf(flags: readonly string[]): ServerOptions {
  const ports = ["http", "grpc", "metrics"].map((name) => `--${name}-port=0`);
  const parsed = parseServerFlags(["--model-repository=/m", "--http-address=127.0.0.1", ...ports, ...flags], {});
  assert.equal(parsed.kind, "options");
  return (parsed as { options: ServerOptions }).options;
}

async function listen(t: TestContext, { flags, protocol }: ListenerRow, peers: PeerConnections): Promise<number> {
  const env = { AIP_PREDICT_ROUTE: "/predict", AIP_HEALTH_ROUTE: "/health" };
  const extras = { env, peers, sagemakerModels: folder };
  const running = frontendsOf(optionsOf(flags), new FakeModelServer(), new MetricRegistry(), new TestLog(), extras);
  await running.listen();
  t.after(async () => {
    await running.closeInference(0);
    await running.closeMetrics();
  });
  const port = running.endpoints.get(protocol)?.port;
  assert.ok(port !== undefined, `nothing listens for ${protocol}`);
  return port;
}

/** Opens connections that send `bytes` and wait. @returns how many the server has closed */
async function hold(
  t: TestContext,
  { isTls = false }: ListenerRow,
  port: number,
  count: number,
  bytes: string,
): Promise<() => number> {
  let numClosed = 0;
  for (let i = 0; i < count; i += 1) {
    // Without bytes, a TLS client has not begun its handshake either.
    const socket: Socket =
      isTls && bytes !== ""
        ? connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: alpn(bytes) })
        : connect({ port, host: "127.0.0.1" });
    t.after(() => socket.destroy());
    socket.on("error", () => undefined).resume();
    socket.once("close", () => {
      numClosed += 1;
    });
    await once(socket, isTls && bytes !== "" ? "secureConnect" : "connect");
    socket.write(bytes);
  }
  return () => numClosed;
}

function alpn(bytes: string): string[] {
  return [bytes === PREFACE ? "h2" : "http/1.1"];
}

for (const row of LISTENERS) {
  for (const [kind, bytes] of Object.entries({ silent: "", "half sent": row.isHttp2 ? PREFACE : HALF_HEAD })) {
    test(`${row.name}: of one peer's ${kind} connections the oldest are closed above its limit`, async (t) => {
      const peers = new PeerConnections({ maxConnections: MANY, maxWaiting: MAX_WAITING, minWaitingMs: 0 });
      const numClosed = await hold(t, row, await listen(t, row, peers), 3 * MAX_WAITING, bytes);
      await eventually(
        async () => [numClosed(), peers.count],
        ([closed, count]) => closed === 2 * MAX_WAITING && count === MAX_WAITING,
      );
    });
  }

  test(`${row.name}: above the limit of all connections the oldest without work are closed`, async (t) => {
    const peers = new PeerConnections({ maxConnections: MAX_WAITING, maxWaiting: MANY, minWaitingMs: 0 });
    const numClosed = await hold(t, row, await listen(t, row, peers), 3 * MAX_WAITING, "");
    await eventually(
      async () => [numClosed(), peers.count],
      ([closed, count]) => closed === 2 * MAX_WAITING && count === MAX_WAITING,
    );
  });
}
