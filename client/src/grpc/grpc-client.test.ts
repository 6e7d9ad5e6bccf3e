/** The gRPC client against servers that answer wrongly, late, in parts or not at all. */
import assert from "node:assert/strict";
import { createServer, type Http2Server, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { GatherWriter, writeInferResponse, writeStreamResponse } from "@nereid/wire";
import { ClientError, type GrpcClientOptions, NereidGrpcClient, tensor } from "../node.ts";
import { frameOf } from "./message-frames.ts";

const INPUTS = [tensor("X", "INT8", [1], Int8Array.of(1))];
const RESPONSE = {
  modelName: "m",
  modelVersion: "1",
  id: "7",
  parameters: new Map(),
  outputs: [{ name: "Y", datatype: "INT8", shape: [2], data: Uint8Array.of(1, 255) }],
};
const NO_WAIT = { initialBackoffMs: 0 };
const OK = { "grpc-status": "0" };

type Answer = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, count: number) => void;
let answer: Answer = () => undefined;
let calls: IncomingHttpHeaders[] = [];
let server: Http2Server;
let url = "";

before(async () => {
  server = createServer();
  server.on("stream", (stream, headers) => {
    calls.push(headers);
    stream.on("error", () => undefined);
    stream.resume();
    answer(stream, headers, calls.length);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => server.close());

async function answering<T>(
  next: Answer,
  use: (client: NereidGrpcClient) => Promise<T>,
  options: Partial<GrpcClientOptions> = {},
): Promise<T> {
  answer = next;
  calls = [];
  using client = new NereidGrpcClient({ url, retry: NO_WAIT, ...options });
  return await use(client);
}

function infer(client: NereidGrpcClient): Promise<unknown> {
  return client.model("m").infer({ inputs: INPUTS, id: "7" });
}

async function failure(work: Promise<unknown>): Promise<ClientError> {
  const error: unknown = await work.then(
    () => undefined,
    (thrown) => thrown,
  );
  assert.ok(error instanceof ClientError, `expected a ClientError, got ${error}`);
  return error;
}

function written(write: (writer: GatherWriter) => void): Uint8Array {
  const writer = new GatherWriter();
  write(writer);
  return frameOf(Buffer.concat(writer.finish()));
}

/** Chunks of the body, then the trailers. */
function respond(chunks: readonly Uint8Array[], trailers: Readonly<Record<string, string>>, head = {}): Answer {
  return (stream) => {
    stream.on("wantTrailers", () => stream.sendTrailers(trailers));
    stream.respond({ ":status": 200, "content-type": "application/grpc", ...head }, { waitForTrailers: true });
    for (const chunk of chunks) stream.write(chunk);
    stream.end();
  };
}

const MESSAGE = written((writer) => writeInferResponse(writer, RESPONSE));

test("infer() sends its limit and metadata, and gives outputs, in chunks that end anywhere", async () => {
  const bytes = [...MESSAGE].map((byte) => Uint8Array.of(byte));
  const call = async (client: NereidGrpcClient) =>
    client.model("m").infer({ inputs: INPUTS, timeoutMs: 120_000, headers: { "x-own": "2" } });
  const result = await answering(respond(bytes, OK), call, { headers: { "x-all": "1" } });
  assert.deepEqual([result.id, result.output("Y", "INT8").data], ["7", Int8Array.of(1, -1)]);
  const [headers = {}] = calls;
  assert.deepEqual([headers[":path"], headers.te], ["/inference.GRPCInferenceService/ModelInfer", "trailers"]);
  assert.deepEqual([headers["x-all"], headers["x-own"]], ["1", "2"]);
  assert.match(String(headers["grpc-timeout"]), /^\d{6}m$/);
});

test("infer() reads a compressed message", async () => {
  const zipped = gzipSync(MESSAGE.subarray(5));
  const frame = Buffer.concat([Buffer.from([1]), Buffer.from([0, 0, 0, zipped.length]), zipped]);
  await answering(respond([frame], OK, { "grpc-encoding": "gzip" }), infer);
});

const FAILURES: readonly [what: string, answer: Answer, expected: object, message: RegExp][] = [
  [
    "a status in the trailers",
    respond([], { "grpc-status": "3", "grpc-message": "caf%C3%A9 %" }),
    { kind: "server", grpcStatus: 3 },
    /^caf%C3%A9 %$/,
  ],
  [
    "a status with an escaped text",
    respond([], { "grpc-status": "5", "grpc-message": "caf%C3%A9" }),
    { kind: "server", grpcStatus: 5, model: "m", requestId: "7" },
    /^café$/,
  ],
  [
    "trailers alone",
    (stream) => stream.respond({ ":status": 200, "grpc-status": "13" }, { endStream: true }),
    { kind: "server", grpcStatus: 13 },
    /^gRPC status 13$/,
  ],
  [
    "a proxy's page",
    (stream) => stream.respond({ ":status": 502 }, { endStream: true }),
    { kind: "server", status: 502 },
    /502/,
  ],
  ["no status", respond([MESSAGE], {}), { kind: "network", isUnsent: false }, /without a status/],
  ["no message", respond([], OK), { kind: "protocol" }, /expected one message, got 0/],
  ["two messages", respond([MESSAGE, MESSAGE], OK), { kind: "protocol" }, /got 2/],
  ["an end within a message", respond([MESSAGE.subarray(0, -1)], OK), { kind: "protocol" }, /within a message/],
  ["no protobuf", respond([frameOf(Uint8Array.of(255))], OK), { kind: "protocol" }, /ModelInferResponse: varint/],
  ["a reset", (stream) => stream.close(2), { kind: "network", isUnsent: false }, /NGHTTP2_INTERNAL_ERROR|code 2/],
];
for (const [what, next, expected, message] of FAILURES) {
  test(`infer() fails for ${what}`, async () => {
    const error = await failure(answering(next, infer));
    assert.match(error.message, message);
    for (const [name, value] of Object.entries(expected)) assert.equal(error[name as keyof ClientError], value, name);
    assert.equal(calls.length, 1);
  });
}

test("infer() refuses outputs that contradict their shape, and messages beyond maxResponseBytes", async () => {
  const outputs = [{ name: "Y", datatype: "INT8", shape: [3], data: Uint8Array.of(1, 2) }];
  const wrong = written((writer) => writeInferResponse(writer, { ...RESPONSE, outputs }));
  const error = await failure(answering(respond([wrong], OK), infer));
  assert.match(error.message, /output 'Y': 2 bytes are no INT8 of shape \[3\]/);
  const tooLong = await failure(answering(respond([MESSAGE], OK), infer, { maxResponseBytes: 10 }));
  assert.match(tooLong.message, /more than maxResponseBytes \(10\)/);
});

test("infer() is sent again after UNAVAILABLE and refused streams", async () => {
  const next: Answer = (stream, headers, count) => {
    if (count === 1) stream.respond({ ":status": 200, "grpc-status": "14" }, { endStream: true });
    else if (count === 2) stream.close(7);
    else respond([MESSAGE], OK)(stream, headers, count);
  };
  await answering(next, infer);
  assert.equal(calls.length, 3);
});

test("infer() without a server is known to be unsent", async () => {
  using client = new NereidGrpcClient({ url: "http://127.0.0.1:1", retry: NO_WAIT });
  const error = await failure(infer(client));
  assert.deepEqual([error.kind, error.isUnsent], ["network", true]);
});

test("a limit, a signal and hedging end calls at the server", { timeout: 120_000 }, async () => {
  const silent: Answer = () => undefined;
  const late = await failure(answering(silent, infer, { timeoutMs: 20 }));
  assert.deepEqual([late.kind, late.model, late.requestId], ["timeout", "m", "7"]);
  const reason = new Error("enough");
  const controller = new AbortController();
  const aborting: Answer = () => controller.abort(reason);
  const { signal } = controller;
  await assert.rejects(
    answering(aborting, (client) => client.model("m").infer({ inputs: INPUTS, signal })),
    reason,
  );
  let gone: (() => void) | undefined;
  const isGone = new Promise<void>((resolve) => {
    gone = resolve;
  });
  const hedged: Answer = (stream, headers, count) => {
    if (count === 1) stream.on("close", () => gone?.());
    else respond([MESSAGE], OK)(stream, headers, count);
  };
  await answering(hedged, async (client) => {
    await client.model("m").infer({ inputs: INPUTS, hedge: { delayMs: 5 } });
    await isGone;
  });
});

test("inferStream() gives responses as they come, throws errors, and cancels when its reader stops", async () => {
  const part = written((writer) => writeStreamResponse(writer, RESPONSE, ""));
  const bad = written((writer) => writeStreamResponse(writer, { ...RESPONSE, outputs: [] }, "out of luck"));
  const results: unknown[] = [];
  const read = async (client: NereidGrpcClient) => {
    for await (const { outputs } of client.model("m").inferStream({ inputs: INPUTS })) results.push(outputs.length);
  };
  const error = await failure(answering(respond([part, part, bad], OK), read));
  assert.deepEqual([results, error.message, error.requestId], [[1, 1], "out of luck", "7"]);
  let code: Promise<number> | undefined;
  const open: Answer = (stream) => {
    stream.respond({ ":status": 200 });
    stream.write(part);
    code = new Promise((resolve) => {
      stream.on("close", () => resolve(stream.rstCode));
    });
  };
  await answering(open, async (client) => {
    for await (const result of client.model("m").inferStream({ inputs: INPUTS })) {
      assert.equal(result.id, "7");
      break;
    }
    assert.equal(await code, 8);
  });
});

test("a connection that the server ended is replaced", async () => {
  let first: ServerHttp2Stream["session"];
  const next: Answer = (stream, headers, count) => {
    first ??= stream.session;
    respond([MESSAGE], OK)(stream, headers, count);
  };
  await answering(next, async (client) => {
    await infer(client);
    const ended = new Promise((resolve) => first?.once("close", resolve));
    first?.close();
    await ended;
    await infer(client);
  });
  assert.equal(calls.length, 2);
});

test("NereidGrpcClient refuses addresses and numbers that cannot be", () => {
  assert.throws(() => new NereidGrpcClient({ url: "ftp://x" }), TypeError);
  assert.throws(() => new NereidGrpcClient({ url, connections: 0 }), RangeError);
});
