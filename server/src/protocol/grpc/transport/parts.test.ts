import assert from "node:assert/strict";
import { test } from "node:test";
import { OrderedReplies } from "../infer/ordered-replies.ts";
import { DEFAULT_GRPC_KEEPALIVE } from "../options.ts";
import { encodeGrpcMessage, GrpcError, statusTrailers } from "../status.ts";
import { chooseEncoding } from "./compression.ts";
import { FrameReader } from "./message-reader.ts";
import { isPingTooEarly } from "./ping-policy.ts";
import { parseGrpcTimeout } from "./timeout.ts";

test("parseGrpcTimeout() reads every unit and ignores what is malformed", () => {
  const cases: [header: string | undefined, ms: number | undefined][] = [
    ["2H", 7_200_000],
    ["3M", 180_000],
    ["4S", 4000],
    ["5m", 5],
    ["1500u", 1.5],
    ["2000000n", 2],
    ["99999999H", 2 ** 31 - 1],
    ["0m", 0],
    ["123456789m", undefined],
    ["5", undefined],
    ["-5m", undefined],
    ["5s", undefined],
    ["", undefined],
    [undefined, undefined],
  ];
  for (const [header, ms] of cases) assert.equal(parseGrpcTimeout(header), ms, String(header));
});

test("encodeGrpcMessage() escapes all but visible ASCII", () => {
  assert.equal(encodeGrpcMessage("plain, 'quoted' ~"), "plain, 'quoted' ~");
  assert.equal(encodeGrpcMessage("100 %\n\u00fc\u0000"), "100 %25%0A%C3%BC%00");
  assert.equal(encodeGrpcMessage(" got [1,4]. "), "%20got [1,4].%20");
});

test("statusTrailers() cuts messages that would not fit a header block", () => {
  assert.deepEqual(statusTrailers(0, "x"), ["grpc-status", "0"]);
  assert.equal(statusTrailers(13, "y".repeat(100_000))[3]?.length, 4099);
});

test("chooseEncoding() follows the level among what the client accepts", () => {
  const cases = [
    ["none", "gzip", "identity"],
    ["low", "identity, deflate, gzip", "gzip"],
    ["medium", "identity,deflate,gzip", "deflate"],
    ["high", "gzip", "gzip"],
    ["high", "identity", "identity"],
    ["high", undefined, "identity"],
  ] as const;
  for (const [level, accept, encoding] of cases)
    assert.equal(chooseEncoding(level, accept), encoding, `${level} ${accept}`);
});

test("isPingTooEarly() tolerates fewer pings without calls", () => {
  const { minRecvPingIntervalMs } = DEFAULT_GRPC_KEEPALIVE;
  assert.equal(isPingTooEarly(minRecvPingIntervalMs - 1, true, DEFAULT_GRPC_KEEPALIVE), true);
  assert.equal(isPingTooEarly(minRecvPingIntervalMs, true, DEFAULT_GRPC_KEEPALIVE), false);
  assert.equal(isPingTooEarly(minRecvPingIntervalMs, false, DEFAULT_GRPC_KEEPALIVE), true);
  const permitted = { ...DEFAULT_GRPC_KEEPALIVE, permitWithoutCalls: true };
  assert.equal(isPingTooEarly(minRecvPingIntervalMs, false, permitted), false);
});

test("FrameReader gives the same messages however the bytes are cut", () => {
  const messages = [Buffer.alloc(0), Buffer.from("abc"), Buffer.alloc(300, 9)];
  const bytes = Buffer.concat(
    messages.flatMap((message) => [Buffer.from([0, 0, 0, message.length >> 8, message.length & 255]), message]),
  );
  for (const size of [1, 2, 5, 7, 64, bytes.length]) {
    const reader = new FrameReader(300);
    const found: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += size) {
      reader.push(bytes.subarray(at, at + size));
      for (let next = reader.next(); next !== undefined; next = reader.next()) found.push(Buffer.from(next.data));
    }
    assert.deepEqual(found, messages, `pieces of ${size}`);
    assert.equal(reader.isAtBoundary, true);
  }
});

test("FrameReader refuses a length past the limit before its message is there", () => {
  const at = new FrameReader(300);
  at.push(Buffer.from([0, 0, 0, 1, 44]));
  assert.equal(at.next(), undefined);
  const past = new FrameReader(299);
  past.push(Buffer.from([0, 0, 0, 1, 44]));
  assert.throws(() => past.next(), GrpcError);
});

test("OrderedReplies sends replies in the order of their slots", () => {
  const sent: string[] = [];
  const replies = new OrderedReplies((message) => sent.push(Buffer.concat(message).toString()));
  const [first, second, third] = [replies.open(), replies.open(), replies.open()];
  third.add([Buffer.from("3")]);
  third.close();
  second.add([Buffer.from("2a")]);
  first.add([Buffer.from("1")]);
  first.close();
  second.add([Buffer.from("2b")]);
  assert.deepEqual(sent, ["1", "2a", "2b"]);
  second.close();
  assert.deepEqual(sent, ["1", "2a", "2b", "3"]);
});
