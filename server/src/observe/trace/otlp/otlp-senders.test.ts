/** Both senders against servers of Node, with protobufjs as the other codec. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { createServer as createHttp2Server, type ServerHttp2Session } from "node:http2";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { gunzipSync } from "node:zlib";
import { OtlpGrpcSender } from "./otlp-grpc-sender.ts";
import { OtlpHttpSender } from "./otlp-http-sender.ts";
import type { OtlpExport } from "./otlp-message.ts";
import { parseOtlpSettings } from "./otlp-settings.ts";

const protobuf: typeof import("protobufjs") = createRequire(import.meta.url)("protobufjs");
/** The fields in use, from opentelemetry-proto and googleapis. */
const { root } = protobuf.parse(
  `syntax = "proto3";
  message Request { repeated ResourceSpans resource_spans = 1; }
  message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
  message Resource { repeated KeyValue attributes = 1; }
  message ScopeSpans { Scope scope = 1; repeated Span spans = 2; }
  message Scope { string name = 1; }
  message KeyValue { string key = 1; Value value = 2; }
  message Value { oneof value { string string_value = 1; int64 int_value = 3; } }
  message Event { fixed64 time_unix_nano = 1; string name = 2; }
  message Span { bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; bytes parent_span_id = 4; string name = 5;
    int32 kind = 6; fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8; repeated KeyValue attributes = 9;
    repeated Event events = 11; }
  message Response { Partial partial_success = 1; }
  message Partial { int64 rejected_spans = 1; string error_message = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message Any { string type_url = 1; bytes value = 2; }
  message RetryInfo { Duration retry_delay = 1; }
  message Duration { int64 seconds = 1; int32 nanos = 2; }`,
  { keepCase: false },
);

const FULL = {
  traceId: "0af7651916cd43dd8448eb211c80319c",
  spanId: "b7ad6b7169203331",
  parentSpanId: "00f067aa0ba902b7",
  traceState: "vendor=1",
  name: "größe",
  kind: 2,
  startTimeUnixNano: "1790000000123456789",
  endTimeUnixNano: "18446744073709551615",
  attributes: [
    { key: "s", value: { stringValue: "" } },
    { key: "i", value: { intValue: "-9007199254740993" } },
  ],
  events: [{ timeUnixNano: "1", name: "REQUEST_START" }],
};
const { parentSpanId: _, traceState: __, ...ROOT } = { ...FULL, name: "x".repeat(300), attributes: [], events: [] };
const BATCH: OtlpExport = { resource: new Map([["service.name", "mine"]]), spans: [FULL, ROOT] };
const EXPECTED = {
  resourceSpans: [
    {
      resource: { attributes: [{ key: "service.name", value: { stringValue: "mine" } }] },
      scopeSpans: [{ scope: { name: "triton-server" }, spans: [FULL, ROOT] }],
    },
  ],
};

function encode(type: string, value: object): Buffer {
  const found = root.lookupType(type);
  return Buffer.from(found.encode(found.fromObject(value)).finish());
}

/** As the JSON form of OTLP has it: identifiers in hexadecimal, integers as text. */
function decode(bytes: Uint8Array): unknown {
  const found = root.lookupType("Request");
  const object = found.toObject(found.decode(bytes), { longs: String, arrays: true });
  const hex = (value: unknown): unknown => (value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value);
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk);
    if (typeof value !== "object" || value === null || value instanceof Uint8Array) return hex(value);
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, walk(each)]));
  };
  return walk(object);
}

interface HttpAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | string;
}

async function httpCollector(t: TestContext, { status, headers = {}, body = "" }: HttpAnswer) {
  const seen: { url: string | undefined; headers: IncomingHttpHeaders; body: Buffer }[] = [];
  const server = createServer((request, response) => {
    void buffer(request).then((bytes) => {
      seen.push({ url: request.url, headers: request.headers, body: bytes });
      response.writeHead(status, headers).end(body);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return { seen, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function sendHttp(t: TestContext, url: string, settings: Readonly<Record<string, string>>) {
  const written = Object.entries({ url: `${url}/v1/traces`, ...settings });
  const sender = new OtlpHttpSender(parseOtlpSettings(written, {}));
  t.after(() => sender.close());
  return sender.send(BATCH, new AbortController().signal);
}

test("OtlpHttpSender sends protobuf that another decoder reads", async (t) => {
  const { seen, url } = await httpCollector(t, { status: 200 });
  const headers = "authorization=Bearer%20x";
  const outcome = await sendHttp(t, url, { headers });
  assert.deepEqual(outcome, { kind: "taken", rejectedSpans: 0, message: "" });
  const [request] = seen;
  assert.equal(request?.url, "/v1/traces");
  assert.equal(request?.headers["content-type"], "application/x-protobuf");
  assert.equal(request?.headers.authorization, "Bearer x");
  assert.match(request?.headers["user-agent"] ?? "", /^OTel-OTLP-Exporter-/);
  assert.deepEqual(decode(request?.body ?? Buffer.alloc(0)), EXPECTED);
});

test("OtlpHttpSender compresses, and sends JSON", async (t) => {
  const { seen, url } = await httpCollector(t, { status: 200, body: "{}" });
  await sendHttp(t, url, { compression: "gzip", protocol: "http/json" });
  assert.equal(seen[0]?.headers["content-encoding"], "gzip");
  assert.equal(seen[0]?.headers["content-type"], "application/json");
  assert.deepEqual(JSON.parse(gunzipSync(seen[0]?.body ?? Buffer.alloc(0)).toString()), EXPECTED);
});

const PROTOBUF = { "content-type": "application/x-protobuf" };
const HTTP_ANSWERS: readonly (readonly [title: string, answer: HttpAnswer, outcome: object])[] = [
  [
    "partial success",
    {
      status: 200,
      headers: PROTOBUF,
      body: encode("Response", { partialSuccess: { rejectedSpans: 3, errorMessage: "old" } }),
    },
    { kind: "taken", rejectedSpans: 3, message: "old" },
  ],
  [
    "partial success in JSON",
    {
      status: 200,
      headers: { "content-type": "application/json" },
      body: '{"partialSuccess":{"rejectedSpans":"2","errorMessage":"no"}}',
    },
    { kind: "taken", rejectedSpans: 2, message: "no" },
  ],
  [
    "400 with its message",
    { status: 400, headers: PROTOBUF, body: encode("Status", { code: 3, message: "bad span" }) },
    { kind: "refused", fault: "answered 400: bad span" },
  ],
  ["404", { status: 404, body: "<html>" }, { kind: "refused", fault: "answered 404" }],
  ["500", { status: 500 }, { kind: "refused", fault: "answered 500" }],
  ["a redirect", { status: 307, headers: { location: "/x" } }, { kind: "refused", fault: "answered 307" }],
  [
    "429 with a pause",
    { status: 429, headers: { "retry-after": "7" } },
    { kind: "busy", fault: "answered 429", retryAfterMs: 7000 },
  ],
  [
    "503 with a date gone by",
    { status: 503, headers: { "retry-after": "Tue, 01 Jan 2019 00:00:00 GMT" } },
    { kind: "busy", fault: "answered 503", retryAfterMs: 0 },
  ],
  ["502", { status: 502 }, { kind: "busy", fault: "answered 502", retryAfterMs: undefined }],
  ["504", { status: 504 }, { kind: "busy", fault: "answered 504", retryAfterMs: undefined }],
];

for (const [title, answer, outcome] of HTTP_ANSWERS) {
  test(`an answer over HTTP: ${title}`, async (t) => {
    const { url } = await httpCollector(t, answer);
    assert.deepEqual(await sendHttp(t, url, {}), outcome);
  });
}

interface GrpcAnswer {
  readonly head?: Readonly<Record<string, string | number>>;
  readonly message?: Buffer;
  readonly trailers: Readonly<Record<string, string>>;
}

async function grpcCollector(t: TestContext, { head = {}, message, trailers }: GrpcAnswer) {
  const seen: { headers: Readonly<Record<string, unknown>>; body: Buffer }[] = [];
  const sessions = new Set<ServerHttp2Session>();
  const server = createHttp2Server();
  server.on("session", (session) => sessions.add(session));
  server.on("stream", (stream, headers) => {
    void buffer(stream).then((body) => {
      seen.push({ headers, body });
      if (message === undefined) {
        stream.respond(
          { ":status": 200, "content-type": "application/grpc", ...head, ...trailers },
          { endStream: true },
        );
        return;
      }
      stream.respond({ ":status": 200, "content-type": "application/grpc", ...head }, { waitForTrailers: true });
      stream.once("wantTrailers", () => stream.sendTrailers(trailers));
      const prefix = Buffer.alloc(5);
      prefix.writeUInt32BE(message.length, 1);
      stream.end(Buffer.concat([prefix, message]));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return { seen, sessions, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

function grpcSender(t: TestContext, url: string, settings: Readonly<Record<string, string>> = {}): OtlpGrpcSender {
  const sender = new OtlpGrpcSender(parseOtlpSettings(Object.entries({ url, protocol: "grpc", ...settings }), {}));
  t.after(() => sender.close());
  return sender;
}

const never = new AbortController().signal;

test("OtlpGrpcSender makes a unary call of TraceService, and keeps its connection", async (t) => {
  const { seen, sessions, url } = await grpcCollector(t, {
    message: Buffer.alloc(0),
    trailers: { "grpc-status": "0" },
  });
  const sender = grpcSender(t, url, { headers: "api-key=k" });
  const outcome = await sender.send(BATCH, never);
  assert.deepEqual(outcome, { kind: "taken", rejectedSpans: 0, message: "" });
  await sender.send(BATCH, never);
  assert.equal(sessions.size, 1);
  const { headers, body = Buffer.alloc(0) } = seen[0] ?? {};
  assert.equal(headers?.[":path"], "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
  assert.equal(headers?.["content-type"], "application/grpc");
  assert.equal(headers?.["grpc-timeout"], "10000m");
  assert.equal(headers?.["api-key"], "k");
  assert.deepEqual([body[0], body.readUInt32BE(1)], [0, body.length - 5]);
  assert.deepEqual(decode(body.subarray(5)), EXPECTED);
});

test("OtlpGrpcSender connects anew after the collector ended the connection", async (t) => {
  const { sessions, url } = await grpcCollector(t, { message: Buffer.alloc(0), trailers: { "grpc-status": "0" } });
  const sender = grpcSender(t, url, { compression: "gzip" });
  await sender.send(BATCH, never);
  for (const session of sessions) {
    session.close();
    await once(session, "close");
  }
  assert.equal((await sender.send(BATCH, never)).kind, "taken");
  assert.equal(sessions.size, 2);
});

function retryInfo(typeUrl: string): string {
  const value = encode("RetryInfo", { retryDelay: { seconds: 1, nanos: 500_000_000 } });
  return encode("Status", { code: 8, details: [{ typeUrl, value }] }).toString("base64");
}

const GRPC_ANSWERS: readonly (readonly [title: string, answer: GrpcAnswer, outcome: object])[] = [
  [
    "partial success",
    {
      message: encode("Response", { partialSuccess: { rejectedSpans: 3, errorMessage: "old" } }),
      trailers: { "grpc-status": "0" },
    },
    { kind: "taken", rejectedSpans: 3, message: "old" },
  ],
  [
    "INVALID_ARGUMENT",
    { trailers: { "grpc-status": "3", "grpc-message": "bad%20span" } },
    { kind: "refused", fault: "answered with code 3: bad span" },
  ],
  [
    "UNAVAILABLE",
    { trailers: { "grpc-status": "14" } },
    { kind: "busy", fault: "answered with code 14", retryAfterMs: undefined },
  ],
  [
    "RESOURCE_EXHAUSTED without a delay",
    { trailers: { "grpc-status": "8", "grpc-status-details-bin": retryInfo("type.googleapis.com/other") } },
    { kind: "refused", fault: "answered with code 8" },
  ],
  [
    "RESOURCE_EXHAUSTED with a delay",
    {
      trailers: {
        "grpc-status": "8",
        "grpc-status-details-bin": retryInfo("type.googleapis.com/google.rpc.RetryInfo"),
      },
    },
    { kind: "busy", fault: "answered with code 8", retryAfterMs: 1500 },
  ],
  [
    "503 of a proxy",
    { head: { ":status": 503 }, trailers: {} },
    { kind: "busy", fault: "answered with code 14: HTTP 503", retryAfterMs: undefined },
  ],
  [
    "404 of a proxy",
    { head: { ":status": 404 }, trailers: {} },
    { kind: "refused", fault: "answered with code 12: HTTP 404" },
  ],
];

for (const [title, answer, outcome] of GRPC_ANSWERS) {
  test(`an answer over gRPC: ${title}`, async (t) => {
    const { url } = await grpcCollector(t, answer);
    assert.deepEqual(await grpcSender(t, url).send(BATCH, never), outcome);
  });
}

for (const protocol of ["grpc", "http/protobuf"] as const) {
  test(`a collector that is not there is worth another try over ${protocol}`, async (t) => {
    const settings = parseOtlpSettings(Object.entries({ url: "http://127.0.0.1:9", protocol }), {});
    const sender = protocol === "grpc" ? new OtlpGrpcSender(settings) : new OtlpHttpSender(settings);
    t.after(() => sender.close());
    const outcome = await sender.send(BATCH, never);
    assert.deepEqual(outcome, { kind: "busy", fault: "could not be reached: connect ECONNREFUSED 127.0.0.1:9" });
  });

  test(`the signal ends an export over ${protocol}`, async (t) => {
    const silent = createServer(() => undefined);
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    t.after(() => silent.close());
    t.after(() => silent.closeAllConnections());
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const settings = parseOtlpSettings(Object.entries({ url, protocol }), {});
    const sender = protocol === "grpc" ? new OtlpGrpcSender(settings) : new OtlpHttpSender(settings);
    t.after(() => sender.close());
    const cut = new AbortController();
    setTimeout(() => cut.abort(), 50);
    assert.equal((await sender.send(BATCH, cut.signal)).kind, "busy");
  });
}
