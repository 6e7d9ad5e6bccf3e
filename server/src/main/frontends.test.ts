import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { request as httpsRequest } from "node:https";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { connect as connectTls } from "node:tls";
import { type ChannelCredentials, Client, credentials } from "@grpc/grpc-js";
import { parseServerFlags } from "../config/flags/parse-server-flags.ts";
import type { ServerOptions } from "../config/flags/server-options.ts";
import { MetricRegistry } from "../observe/metrics.ts";
import { FakeModelServer } from "../protocol/grpc/fake-model-server.test-support.ts";
import { TEST_CERT, TEST_KEY } from "../protocol/grpc/test-certificate.test-support.ts";
import { callUnary, inferRequest, TestLog } from "../protocol/grpc/test-peer.test-support.ts";
import { frontendsOf, type RunningFrontends } from "./frontends.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-fronts-"));
after(() => rmSync(folder, { recursive: true }));
const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
writeFileSync(certFile, TEST_CERT);
writeFileSync(keyFile, TEST_KEY);

interface Bed {
  readonly server: FakeModelServer;
  readonly running: RunningFrontends;
  readonly port: number;
  close(): Promise<void>;
}

function optionsOf(...flags: string[]): ServerOptions {
  const ports = ["--http-port=0", "--grpc-port=0", "--metrics-port=0", "--http-address=127.0.0.1"];
  const parsed = parseServerFlags(["--model-repository=/m", "--grpc-address=127.0.0.1", ...ports, ...flags], {});
  assert.equal(parsed.kind, "options");
  return (parsed as { options: ServerOptions }).options;
}

async function open(...flags: string[]): Promise<Bed> {
  const options = optionsOf(...flags);
  const metrics = new MetricRegistry();
  metrics.register({ name: "nv_x", help: "x", type: "gauge", collect: () => [{ labels: {}, value: 1 }] });
  const server = new FakeModelServer();
  const running = frontendsOf(options, server, metrics, new TestLog());
  await running.listen();
  const close = async (): Promise<void> => {
    await running.closeInference(2000);
    await running.closeMetrics();
  };
  return { server, running, port: running.endpoints.get("http")?.port ?? 0, close };
}

async function serverLive(target: string, channel: ChannelCredentials = credentials.createInsecure()) {
  const client = new Client(target, channel);
  try {
    return await callUnary(client, "ServerLive", {}, { deadline: Date.now() + 5000 });
  } finally {
    client.close();
  }
}

function statusOf(request: ReturnType<typeof httpRequest>): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    request.on("error", reject);
    request.on("response", (response: IncomingMessage) =>
      response.resume().on("end", () => resolve(response.statusCode)),
    );
    request.end();
  });
}

const LIVE = { host: "127.0.0.1", path: "/v2/health/live", agent: false } as const;

const TAKEN = [
  ["http", "HTTP"],
  ["grpc", "GRPC"],
  ["metrics", "Metrics"],
] as const;

for (const [protocol, name] of TAKEN) {
  test(`expectFree() and listen() say that the port of --${protocol}-port is taken, and leave no port open`, async () => {
    const holder = createServer().listen(0, "127.0.0.1");
    await once(holder, "listening");
    const { port } = holder.address() as AddressInfo;
    const options = optionsOf(`--${protocol}-port=${port}`);
    const running = frontendsOf(options, new FakeModelServer(), new MetricRegistry(), new TestLog());
    const message = `failed to start ${name} service: Unavailable - Socket '127.0.0.1:${port}' already in use
End what listens there, or choose another place with --${protocol}-port`;
    await assert.rejects(running.expectFree(), { code: "unavailable", message });
    await assert.rejects(running.listen(), { code: "unavailable", message });
    holder.close();
    await once(holder, "close");
    await running.expectFree();
    await running.expectFree(); // what was looked at is free again
  });
}

test("expectFree() names the flag of an address that is not of this machine", async () => {
  const options = optionsOf("--http-address=192.0.2.1");
  const running = frontendsOf(options, new FakeModelServer(), new MetricRegistry(), new TestLog());
  const message =
    /^failed to start HTTP service: Unavailable - cannot listen at 192\.0\.2\.1:0: .*EADDRNOTAVAIL.* \(--http-address\)$/;
  await assert.rejects(running.expectFree(), { code: "unavailable", message });
});

test("expectFree() does not look at ports that are shared", async () => {
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const { port } = holder.address() as AddressInfo;
  const options = optionsOf(`--http-port=${port}`, "--reuse-http-port=true");
  await frontendsOf(options, new FakeModelServer(), new MetricRegistry(), new TestLog()).expectFree();
  holder.close();
});

test("--http-use-ssl serves HTTPS and nothing else", async () => {
  const bed = await open("--http-use-ssl=true", `--http-server-cert=${certFile}`, `--http-server-key=${keyFile}`);
  assert.equal(await statusOf(httpsRequest({ ...LIVE, port: bed.port, ca: TEST_CERT })), 200);
  await assert.rejects(statusOf(httpRequest({ ...LIVE, port: bed.port })), { code: "ECONNRESET" });
  await bed.close();
});

test("a client that connects to the HTTPS port and says nothing does not hold the end up, one that has agreed on TLS neither", async (t) => {
  const bed = await open("--http-use-ssl=true", `--http-server-cert=${certFile}`, `--http-server-key=${keyFile}`);
  const silent = connect(bed.port, "127.0.0.1");
  const agreed = connectTls({ host: "127.0.0.1", port: bed.port, ca: TEST_CERT, servername: "localhost" });
  await Promise.all([once(silent, "connect"), once(agreed, "secureConnect")]);
  t.after(async () => {
    for (const socket of [silent, agreed]) socket.destroy();
    await bed.close();
  });
  const ends = Promise.all([once(silent.resume(), "close"), once(agreed.resume(), "close")]);
  assert.equal(await bed.running.closeInference(8000), true); // shorter than the handshake may take
  await ends;
});

test("--http-use-ssl-mutual needs a certificate of the given authority", async () => {
  const files = [`--http-server-cert=${certFile}`, `--http-server-key=${keyFile}`, `--http-root-cert=${certFile}`];
  const bed = await open("--http-use-ssl-mutual=true", ...files);
  const own = { cert: TEST_CERT, key: TEST_KEY };
  assert.equal(await statusOf(httpsRequest({ ...LIVE, port: bed.port, ca: TEST_CERT, ...own })), 200);
  await assert.rejects(statusOf(httpsRequest({ ...LIVE, port: bed.port, ca: TEST_CERT })));
  await bed.close();
});

test("a certificate that cannot be read ends the start with the flag's name", async () => {
  const files = ["--http-server-cert=/none", `--http-server-key=${keyFile}`];
  await assert.rejects(open("--http-use-ssl=true", ...files), /cannot read the file '\/none' of --http-server-cert/);
});

test("addresses that begin with unix: are sockets for HTTP, gRPC and metrics", async () => {
  const paths = ["http", "grpc", "metrics"].map((name) => join(folder, `${name}.sock`));
  const bed = await open(...["http", "grpc", "metrics"].map((name, i) => `--${name}-address=unix:${paths[i]}`));
  assert.deepEqual(
    [...bed.running.endpoints.values()].map(({ address }) => address).sort(),
    paths.map((path) => `unix:${path}`).sort(),
  );
  assert.equal(await statusOf(httpRequest({ socketPath: paths[0], path: "/v2/health/live", agent: false })), 200);
  assert.deepEqual(await serverLive(`unix:${paths[1]}`), { live: true });
  assert.equal(await statusOf(httpRequest({ socketPath: paths[2], path: "/metrics", agent: false })), 200);
  await bed.close();
});

test("--http-max-connection-age closes a connection with an answer, not before", async () => {
  const bed = await open("--http-max-connection-age=250");
  const socket = connect(bed.port, "127.0.0.1");
  const text = await exchange(socket);
  assert.doesNotMatch(text, /connection: close/i);
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.match(await exchange(socket), /^HTTP\/1\.1 200 OK\r\n.*connection: close/is);
  await once(socket, "close");
  await bed.close();
});

async function exchange(socket: Socket): Promise<string> {
  socket.write("GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n");
  const [chunk] = (await once(socket, "data")) as [Buffer];
  return chunk.toString();
}

/** One request over HTTP/2. */
async function askHttp2(url: string, headers: Record<string, string>, body: string, ca?: string) {
  const session = connectHttp2(url, ca === undefined ? {} : { ca });
  const stream = session.request(headers, { endStream: false });
  stream.end(body);
  const [answer] = (await once(stream, "response")) as [Record<string, unknown>];
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  session.close();
  return { status: answer[":status"], type: answer["content-type"], text: Buffer.concat(chunks).toString() };
}

for (const isTls of [false, true]) {
  test(`--one-port serves HTTP/1.1, HTTP/2 and gRPC at one port${isTls ? ", over TLS" : ""}`, async () => {
    const tls = ["--http-use-ssl=true", `--http-server-cert=${certFile}`, `--http-server-key=${keyFile}`];
    const bed = await open("--one-port=true", ...(isTls ? tls : []));
    const [url, request] = isTls
      ? [`https://localhost:${bed.port}`, httpsRequest]
      : [`http://localhost:${bed.port}`, httpRequest];
    const ca = isTls ? { ca: TEST_CERT } : {};
    assert.deepEqual([...bed.running.endpoints.keys()].sort(), ["http", "metrics"]);
    assert.equal(await statusOf(request({ ...LIVE, port: bed.port, ...ca })), 200);
    assert.equal(await statusOf(request({ ...LIVE, port: bed.port, path: "/metrics", ...ca })), 200);
    const channel = isTls ? credentials.createSsl(Buffer.from(TEST_CERT)) : credentials.createInsecure();
    assert.deepEqual(await serverLive(`localhost:${bed.port}`, channel), { live: true });
    const metadata = await askHttp2(url, { ":path": "/v2" }, "", ca.ca);
    assert.deepEqual([metadata.status, metadata.type], [200, "application/json"]);
    const wrong = await askHttp2(url, { ":path": "/v2", ":method": "POST" }, "", ca.ca);
    assert.deepEqual([wrong.status, wrong.text], [405, '{"error":"Method Not Allowed"}']);
    const input = '{"name":"INPUT0","datatype":"INT32","shape":[1,2],"data":[1,2]}';
    const body = `{"inputs":[${input},${input.replace("INPUT0", "INPUT1")}]}`;
    const infer = { ":path": "/v2/models/simple/infer", ":method": "POST" };
    const answer = await askHttp2(url, infer, body, ca.ca);
    assert.match(answer.text, /"outputs":\[\{"name":"OUTPUT0"/);
    await bed.close();
  });
}

test("--one-port takes a preface that comes byte by byte, and requests that come with it", async () => {
  const bed = await open("--one-port=true");
  const socket = connect(bed.port, "127.0.0.1");
  socket.setNoDelay(true);
  for (const byte of "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n") {
    socket.write(byte);
    await new Promise((resolve) => setImmediate(resolve));
  }
  const [chunk] = (await once(socket, "data")) as [Buffer];
  assert.match(chunk.toString(), /^HTTP\/1\.1 200 OK/);
  assert.match(await exchange(socket), /^HTTP\/1\.1 200 OK/);
  socket.destroy();
  const http2 = connect(bed.port, "127.0.0.1");
  http2.setNoDelay(true);
  for (const byte of "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0") {
    http2.write(Buffer.from(byte, "latin1"));
    await new Promise((resolve) => setImmediate(resolve));
  }
  const [settings] = (await once(http2, "data")) as [Buffer];
  assert.equal(settings[3], 4); // the server's own SETTINGS
  http2.destroy();
  await bed.close();
});

test("--one-port ends gRPC calls and HTTP requests in order when the server stops", async () => {
  const bed = await open("--one-port=true");
  const client = new Client(`127.0.0.1:${bed.port}`, credentials.createInsecure());
  const slow = callUnary(client, "ModelInfer", inferRequest({ model_name: "late" }));
  while (bed.server.seen.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const closed = bed.close();
  const outcome = await slow.then(
    () => "ok",
    (error: Error) => error.message,
  );
  assert.equal(outcome, "ok");
  await closed;
  client.close();
});

test("only the ports that are asked for are opened", async () => {
  for (const [flags, wanted] of [
    [["--allow-metrics=false"], ["grpc", "http"]],
    [["--allow-metrics=false", "--allow-grpc=false"], ["http"]],
    [["--allow-http=false"], ["grpc", "metrics"]],
  ] as const) {
    const bed = await open(...flags);
    assert.deepEqual([...bed.running.endpoints.keys()].sort(), wanted);
    await bed.close();
  }
});
