import assert from "node:assert/strict";
import type { ClientHttp2Session } from "node:http2";
import { connect as connectTcp } from "node:net";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { deflateSync, gzipSync } from "node:zlib";
import {
  callUnary,
  encode,
  frame,
  inferRequest,
  openSession,
  openTestBed,
  rawCall,
  STREAM_INFER,
  type TestBed,
} from "./test-peer.test-support.ts";

const LIMIT = 1_000_000;
const GOOD = encode("inference.ModelInferRequest", inferRequest());
let bed: TestBed;
let session: ClientHttp2Session;
before(async () => {
  bed = await openTestBed({ maxMessageBytes: LIMIT });
  session = openSession(bed.port);
});
after(async () => {
  session.destroy();
  await bed.close();
});

const GZIP = { "grpc-encoding": "gzip" };
const cases: [what: string, headers: object, body: Uint8Array, status: string, message: RegExp][] = [
  ["no message", {}, Buffer.alloc(0), "13", /^No payload$/],
  ["a prefix cut off", {}, Buffer.from([0, 0, 0]), "13", /^Message was cut off$/],
  ["a message cut off", {}, frame(GOOD, 0, GOOD.length + 1), "13", /^Message was cut off$/],
  ["a giant length", {}, frame(GOOD, 0, 0xffffffff), "8", /larger than max \(4294967295 vs\. 1000000\)/],
  ["a length just past the limit", {}, frame(GOOD, 0, LIMIT + 1), "8", /larger than max \(1000001 vs\. 1000000\)/],
  ["a wrong compressed flag", {}, frame(GOOD, 2), "13", /compressed flag 2/],
  ["bytes that are no message", {}, frame(Buffer.from("\nPA")), "13", /^Unable to parse request$/],
  ["field number 0", {}, frame(Buffer.from([0, 0])), "13", /^Unable to parse request$/],
  ["a group without end", {}, frame(Buffer.from([0x7b])), "13", /^Unable to parse request$/],
  ["groups ten thousand deep", {}, frame(Buffer.alloc(10_000, 0x7b)), "13", /^Unable to parse request$/],
  ["a name that is not UTF-8", {}, frame(Buffer.from([10, 2, 0xc3, 0x28])), "13", /^Unable to parse request$/],
  ["a hundred thousand inputs", {}, frame(Buffer.alloc(200_000).fill("*\0")), "13", /^Unable to parse request$/],
  ["a compressed message without encoding", {}, frame(gzipSync(GOOD), 1), "13", /no grpc-encoding/],
  ["compressed data that is none", GZIP, frame(GOOD, 1), "13", /not valid gzip/],
  ["a gzip bomb", GZIP, frame(gzipSync(Buffer.alloc(50_000_000)), 1), "8", /larger than max/],
  ["an unknown encoding", { "grpc-encoding": "br" }, frame(GOOD, 1), "12", /'br' is not supported/],
  ["an unknown method", { ":path": "/inference.GRPCInferenceService/Nope" }, frame(GOOD), "12", /^$/],
  ["a path of another kind", { ":path": "/" }, frame(GOOD), "12", /^$/],
  ["a method named like a property", { ":path": "/constructor" }, frame(GOOD), "12", /^$/],
];
for (const [what, headers, body, status, message] of cases) {
  test(`a call with ${what} ends with status ${status}`, async () => {
    const { trailers } = await rawCall(session, headers as Record<string, string>, body);
    assert.equal(trailers["grpc-status"], status);
    assert.match(String(trailers["grpc-message"] ?? ""), message);
  });
}

test("a good message of the largest size is taken, and compressed ones are", async () => {
  const filler = Buffer.alloc(LIMIT - GOOD.length - 4, 0);
  const padded = Buffer.concat([GOOD, Buffer.from([0xfa, 0x01, ...varint(filler.length)]), filler]).subarray(0, LIMIT);
  assert.equal(padded.length <= LIMIT, true);
  for (const [headers, body] of [
    [{}, frame(GOOD)],
    [GZIP, frame(gzipSync(GOOD), 1)],
    [{ "grpc-encoding": "deflate" }, frame(deflateSync(GOOD), 1)],
    [GZIP, frame(GOOD, 0)],
  ] as const) {
    const { trailers, body: answer } = await rawCall(session, headers, body);
    assert.equal(trailers["grpc-status"], "0");
    assert.equal(answer.readUInt32BE(1), answer.length - 5);
  }
});

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)];
}

test("a message split into single bytes is put together", async () => {
  const stream = session.request({
    ":method": "POST",
    ":path": "/inference.GRPCInferenceService/ModelInfer",
    "content-type": "application/grpc+proto",
  });
  // Listens at once: the answer may come with the last byte, before the end of the request.
  const trailers = new Promise<Record<string, unknown>>((resolve) => stream.on("trailers", resolve));
  for (const byte of frame(GOOD)) {
    stream.write(Buffer.from([byte]));
    await sleep(0);
  }
  stream.end();
  stream.resume();
  assert.equal((await trailers)["grpc-status"], "0");
});

test("a request that is no gRPC gets an HTTP status and a hint at the right port", async () => {
  const types = ["application/json", "application/grpc-web", "application/grpcx", ""];
  for (const type of types) {
    const { headers, body } = await rawCall(session, { "content-type": type }, frame(GOOD));
    assert.equal(headers[":status"], 415, type);
    assert.match(body.toString(), /^This port takes gRPC/);
  }
  const { headers } = await rawCall(session, { ":method": "PUT" }, frame(GOOD));
  assert.equal(headers[":status"], 405);
});

test("hostile map keys reach no prototype", async () => {
  const entry = Buffer.from([10, 9, ..."__proto__".split("").map((c) => c.charCodeAt(0)), 18, 3, 26, 1, 120]);
  const load = Buffer.concat([Buffer.from([18, 1, 109, 26, entry.length]), entry]);
  const path = { ":path": "/inference.GRPCInferenceService/RepositoryModelLoad" };
  const { trailers } = await rawCall(session, path, frame(load));
  assert.equal(trailers["grpc-message"], "unrecognized load parameter '__proto__'.");
  assert.equal(({} as Record<string, unknown>).string_param, undefined);
});

test("a client that goes on sending after the answer is stopped with NO_ERROR", async () => {
  const { trailers, rstCode } = await rawCall(session, {}, frame(Buffer.from("\nPA")), false);
  assert.equal(trailers["grpc-status"], "13");
  assert.equal(rstCode, 0);
});

test("a good unary call is answered before the client has closed its side", async () => {
  const { trailers, rstCode } = await rawCall(session, {}, frame(GOOD), false);
  assert.equal(trailers["grpc-status"], "0");
  assert.equal(rstCode, 0);
});

test("a malformed message on a stream ends the stream", async () => {
  const body = Buffer.concat([frame(GOOD), frame(Buffer.from("\nPA"))]);
  const { trailers } = await rawCall(session, { ":path": STREAM_INFER }, body);
  assert.equal(trailers["grpc-status"], "13");
  assert.equal(trailers["grpc-message"], "Unable to parse request");
});

test("a thousand calls that are reset at once leave nothing open", async () => {
  const other = openSession(bed.port);
  for (let round = 0; round < 20; round++) {
    for (let k = 0; k < 50; k++) {
      const stream = other.request({
        ":method": "POST",
        ":path": STREAM_INFER,
        "content-type": "application/grpc",
      });
      stream.on("error", () => stream.destroy());
      stream.close(8);
    }
    await sleep(5);
  }
  other.destroy();
  for (let k = 0; k < 100 && bed.frontend.callCount > 0; k++) await sleep(10);
  assert.equal(bed.frontend.callCount, 0);
  await callUnary(bed.client, "ServerLive", {});
});

test("a connection that speaks something else is closed, and the server goes on", async () => {
  const socket = connectTcp(bed.port, "127.0.0.1");
  socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  socket.resume();
  await new Promise((resolve) => socket.on("close", resolve));
  await callUnary(bed.client, "ServerLive", {});
});

test("the settings cap concurrent streams and header size", async () => {
  const settings = session.remoteSettings;
  assert.equal(settings.maxConcurrentStreams, 1024);
  assert.equal(settings.maxHeaderListSize, 16 * 1024);
});

test("a client that pings too often is sent away", async () => {
  const other = openSession(bed.port);
  const goaway = new Promise<[number, string]>((resolve) => {
    other.on("goaway", (code, _last, data) => resolve([code, data === undefined ? "" : Buffer.from(data).toString()]));
  });
  await new Promise((resolve) => other.on("connect", resolve));
  for (let k = 0; k < 8 && !other.destroyed; k++) other.ping(() => undefined);
  assert.deepEqual(await goaway, [11, "too_many_pings"]);
});
