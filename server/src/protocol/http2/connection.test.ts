import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { FLAG, FRAME, HTTP2_ERROR, PREFACE, SETTING } from "./codes.ts";
import { CLOSING, frame, HEAD, LIMITS, OPEN, open, repeat, setting } from "./connection.test-support.ts";
import { uint32 } from "./frame-rules.ts";

const CLOSED = Buffer.concat([frame(FRAME.headers, CLOSING, 1, HEAD), frame(FRAME.reset, 0, 1, uint32(8))]);
/** Stream 7 is one too many; the client gives it up itself and goes on sending on it. */
const REFUSED_THEN_DATA = Buffer.concat([
  ...[1, 3, 5, 7].map((id) => frame(FRAME.headers, FLAG.endHeaders, id, HEAD)),
  frame(FRAME.reset, 0, 7, uint32(8)),
  frame(FRAME.data, 0, 7),
]);
const FAULTS: readonly (readonly [what: string, code: number, bytes: Buffer])[] = [
  ["settings on a stream", HTTP2_ERROR.protocol, frame(FRAME.settings, 0, 1)],
  ["settings that are cut off", HTTP2_ERROR.frameSize, frame(FRAME.settings, 0, 0, Buffer.alloc(5))],
  ["acknowledged settings with content", HTTP2_ERROR.frameSize, frame(FRAME.settings, 1, 0, Buffer.alloc(6))],
  ["a window beyond 2^31 - 1", HTTP2_ERROR.flowControl, setting(SETTING.initialWindowSize, 2 ** 31)],
  ["frames smaller than allowed", HTTP2_ERROR.protocol, setting(SETTING.maxFrameSize, 16_383)],
  ["push neither on nor off", HTTP2_ERROR.protocol, setting(SETTING.enablePush, 2)],
  ["a frame that is too large", HTTP2_ERROR.frameSize, Buffer.from([0x10, 0, 1, 0, 0, 0, 0, 0, 1])],
  ["a large frame of control", HTTP2_ERROR.frameSize, Buffer.from([0, 0x80, 0, 4, 0, 0, 0, 0, 0])],
  ["data on a stream that is idle", HTTP2_ERROR.protocol, frame(FRAME.data, 0, 1)],
  ["data on no stream", HTTP2_ERROR.protocol, frame(FRAME.data, 0, 0)],
  ["data on a closed stream", HTTP2_ERROR.streamClosed, Buffer.concat([CLOSED, frame(FRAME.data, 0, 1)])],
  ["data on a stream that it gave up after it was refused", HTTP2_ERROR.streamClosed, REFUSED_THEN_DATA],
  ["headers on a closed stream", HTTP2_ERROR.streamClosed, Buffer.concat([CLOSED, OPEN])],
  ["headers of a stream with an even number", HTTP2_ERROR.protocol, frame(FRAME.headers, FLAG.endHeaders, 2, HEAD)],
  ["headers on no stream", HTTP2_ERROR.protocol, frame(FRAME.headers, FLAG.endHeaders, 0, HEAD)],
  ["headers that nobody can decode", HTTP2_ERROR.compression, frame(FRAME.headers, 4, 1, Buffer.from([0xff, 0xff]))],
  ["padding longer than its frame", HTTP2_ERROR.protocol, frame(FRAME.headers, 12, 1, Buffer.from([9, 0x82]))],
  ["padding longer than its data", HTTP2_ERROR.protocol, Buffer.concat([OPEN, frame(0, 8, 1, Buffer.from([9, 1]))])],
  ["another frame inside a header block", HTTP2_ERROR.protocol, Buffer.concat([frame(1, 0, 1, HEAD), OPEN])],
  ["headers continued that never began", HTTP2_ERROR.protocol, frame(FRAME.continuation, 4, 1, HEAD)],
  ["a header block without end", HTTP2_ERROR.enhanceYourCalm, endlessBlock()],
  [
    "padding without end",
    HTTP2_ERROR.enhanceYourCalm,
    Buffer.concat([OPEN, repeat(frame(0, 8, 1, Buffer.from([0])), 1001)]),
  ],
  ["streams without end that this side must reset", HTTP2_ERROR.enhanceYourCalm, manyBadStreams()],
  ["a header block of too many frames", HTTP2_ERROR.enhanceYourCalm, manyParts()],
  ["a dynamic table beyond the settings", HTTP2_ERROR.compression, frame(1, 4, 1, Buffer.from([0x3f, 0xe2, 0x1f]))],
  ["more data than the connection's window", HTTP2_ERROR.flowControl, beyondWindow()],
  ["a reset of an idle stream", HTTP2_ERROR.protocol, frame(FRAME.reset, 0, 1, uint32(8))],
  ["a reset of the wrong size", HTTP2_ERROR.frameSize, Buffer.concat([OPEN, frame(FRAME.reset, 0, 1)])],
  ["a push", HTTP2_ERROR.protocol, frame(FRAME.pushPromise, 4, 1, HEAD)],
  ["a ping of the wrong size", HTTP2_ERROR.frameSize, frame(FRAME.ping, 0, 0, Buffer.alloc(6))],
  ["a ping on a stream", HTTP2_ERROR.protocol, frame(FRAME.ping, 0, 1, Buffer.alloc(8))],
  ["GOAWAY on a stream", HTTP2_ERROR.protocol, frame(FRAME.goAway, 0, 1, Buffer.alloc(8))],
  ["a window that grows by nothing", HTTP2_ERROR.protocol, frame(FRAME.windowUpdate, 0, 0, uint32(0))],
  ["a window that grows too large", HTTP2_ERROR.flowControl, frame(FRAME.windowUpdate, 0, 0, uint32(2 ** 31 - 1))],
  ["a window of the wrong size", HTTP2_ERROR.frameSize, frame(FRAME.windowUpdate, 0, 0)],
  ["pings without end", HTTP2_ERROR.enhanceYourCalm, repeat(frame(FRAME.ping, 0, 0, Buffer.alloc(8)), 10_001)],
  ["empty frames without end", HTTP2_ERROR.enhanceYourCalm, Buffer.concat([OPEN, repeat(frame(0, 0, 1), 1001)])],
];

function endlessBlock(): Buffer {
  const more = frame(FRAME.continuation, 0, 1, Buffer.alloc(10_000));
  return Buffer.concat([frame(FRAME.headers, 0, 1, HEAD), repeat(more, 7)]);
}

/** MadeYouReset: each is refused for a request that is malformed. */
function manyBadStreams(): Buffer {
  const streams = Array.from({ length: 2500 }, (_, i) => frame(FRAME.headers, 5, 2 * i + 1, HEAD.subarray(0, 2)));
  return Buffer.concat(streams);
}

function manyParts(): Buffer {
  return Buffer.concat([frame(FRAME.headers, 0, 1, HEAD), repeat(frame(FRAME.continuation, 0, 1), 64)]);
}

/** Padding of one frame: it is more than the window of the connection, and the window is judged first. */
function beyondWindow(): Buffer {
  return Buffer.concat([OPEN, frame(FRAME.data, 0, 1, Buffer.alloc(LIMITS.connectionWindowBytes + 1))]);
}

for (const [what, code, bytes] of FAULTS) {
  test(`Http2Connection tells a client that sends ${what} and lets go of the socket`, async (context) => {
    const pair = await open(context, { halfOpen: true });
    pair.client.write(bytes);
    // Pings are counted by the second, which may end between them.
    const again = setInterval(() => pair.client.write(bytes), 2000);
    const { payload } = await pair.until(FRAME.goAway).finally(() => clearInterval(again));
    assert.equal(payload.readUInt32BE(4), code, payload.subarray(8).toString());
    // As a client that got GOAWAY: it ends its side, or keeps the connection silent.
    if (code === HTTP2_ERROR.protocol) pair.client.end();
    else pair.client.once("end", () => pair.client.destroy());
    await pair.untilClosed();
    assert.equal(pair.serverSocket?.destroyed, true);
    assert.equal(pair.fault?.code, code);
    assert.equal(pair.connection?.streamCount, 0);
  });
}

test("Http2Connection lets go of a client that broke a rule and keeps its half open", async (context) => {
  const pair = await open(context, { halfOpen: true });
  pair.client.write(frame(FRAME.settings, 0, 1));
  await once(pair.client, "end");
  pair.client.write("more");
  while (!pair.isClosed) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal(pair.serverSocket?.destroyed, true);
});

test("Http2Connection refuses what is no HTTP/2, and what begins without settings", async (context) => {
  for (const bytes of [Buffer.from("GET / HTTP/1.1\r\n\r\n"), Buffer.concat([PREFACE, OPEN])]) {
    const pair = await open(context, { handshake: false });
    pair.client.write(bytes);
    const { payload } = await pair.until(FRAME.goAway);
    assert.equal(payload.readUInt32BE(4), HTTP2_ERROR.protocol);
    await pair.untilClosed();
  }
});

const RESETS: readonly (readonly [what: string, code: number, bytes: Buffer])[] = [
  ["a request without a path", HTTP2_ERROR.protocol, frame(FRAME.headers, 5, 1, HEAD.subarray(0, 2))],
  ["a name with a capital", HTTP2_ERROR.protocol, withField("A", "b")],
  ["a field of HTTP/1.1", HTTP2_ERROR.protocol, withField("connection", "close")],
  ["a line break in a value", HTTP2_ERROR.protocol, withField("a", "b\r\nc: d")],
  ["too many bytes of fields", HTTP2_ERROR.enhanceYourCalm, withField("a", "b".repeat(1000))],
  ["a stream that depends on itself", HTTP2_ERROR.protocol, frame(1, 37, 1, Buffer.concat([uint32(1), HEAD, HEAD]))],
  ["less data than announced", HTTP2_ERROR.protocol, withField("content-length", "5")],
  ["more data than its window", HTTP2_ERROR.flowControl, Buffer.concat([OPEN, frame(0, 0, 1, Buffer.alloc(1001))])],
  ["more data than announced", HTTP2_ERROR.protocol, longerThanAnnounced()],
  ["trailers that do not end it", HTTP2_ERROR.protocol, Buffer.concat([OPEN, OPEN])],
  ["data behind its end", HTTP2_ERROR.streamClosed, Buffer.concat([frame(1, 5, 1, HEAD), frame(0, 0, 1)])],
  ["a window too large", HTTP2_ERROR.flowControl, Buffer.concat([OPEN, frame(8, 0, 1, uint32(2 ** 31 - 1))])],
];

function withField(name: string, value: string): Buffer {
  const length = (text: string): number[] => (text.length < 127 ? [text.length] : [127, 128 + 105, 6]);
  const field = [0, name.length, ...Buffer.from(name), ...length(value), ...Buffer.from(value)];
  return frame(FRAME.headers, CLOSING, 1, Buffer.from([...HEAD, ...field]));
}

function longerThanAnnounced(): Buffer {
  const head = withField("content-length", "5");
  head[4] = FLAG.endHeaders;
  return Buffer.concat([head, frame(FRAME.data, 0, 1, Buffer.alloc(6))]);
}

for (const [what, code, bytes] of RESETS) {
  test(`Http2Connection resets a stream with ${what} and goes on`, async (context) => {
    const pair = await open(context);
    pair.client.write(bytes);
    assert.equal((await pair.until(FRAME.reset, 1)).payload.readUInt32BE(0), code);
    pair.client.write(frame(FRAME.headers, CLOSING, 3, HEAD));
    pair.client.write(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
    await pair.until(FRAME.ping);
    assert.equal(pair.streams.at(-1)?.id, 3);
    assert.equal(pair.isClosed, false);
  });
}

test("Http2Connection refuses streams beyond the limit until others have ended", async (context) => {
  const pair = await open(context);
  for (const id of [1, 3, 5, 7]) pair.client.write(frame(FRAME.headers, CLOSING, id, HEAD));
  assert.equal((await pair.until(FRAME.reset, 7)).payload.readUInt32BE(0), HTTP2_ERROR.refusedStream);
  pair.streams[0]?.respond([":status", "204"], { ends: true });
  await pair.until(FRAME.headers, 1);
  pair.client.write(frame(FRAME.headers, CLOSING, 9, HEAD));
  pair.client.write(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
  await pair.until(FRAME.ping);
  assert.deepEqual(
    pair.streams.map(({ id }) => id),
    [1, 3, 5, 9],
  );
});

test("Http2Connection gives a request in pieces, however it is cut, without its padding", async (context) => {
  const pair = await open(context);
  const padded = Buffer.concat([Buffer.from([3]), Buffer.from("hello"), Buffer.alloc(3)]);
  const request = [OPEN, frame(99, 0, 0, Buffer.alloc(20)), frame(0, FLAG.padded, 1, padded), frame(0, 1, 1)];
  for (const byte of Buffer.concat(request)) {
    pair.client.write(Buffer.from([byte]));
    await new Promise((resolve) => setImmediate(resolve));
  }
  while (!pair.pieces.includes("1 end")) await new Promise((resolve) => setTimeout(resolve, 5));
  const received = pair.pieces.filter((text) => text.startsWith("1 data")).map((text) => Number(text.slice(7)));
  assert.equal(
    received.reduce((sum, size) => sum + size, 0),
    5,
  );
});

test("Http2Connection sends no more than the windows allow, then the rest and the trailers", async (context) => {
  const pair = await open(context);
  pair.client.write(setting(SETTING.initialWindowSize, 10));
  pair.client.write(frame(FRAME.headers, CLOSING, 1, HEAD));
  await pair.until(FRAME.settings, 0, 3);
  await pair.untilStreams(1);
  const [stream] = pair.streams;
  stream?.respond([":status", "200"]);
  stream?.write(Buffer.from("0123456789abcdef"));
  stream?.end(["x", "y"]);
  assert.equal((await pair.until(FRAME.data, 1)).payload.toString(), "0123456789");
  pair.client.write(frame(FRAME.windowUpdate, 0, 1, uint32(4)));
  assert.equal((await pair.until(FRAME.data, 1, 2)).payload.toString(), "abcd");
  pair.client.write(setting(SETTING.initialWindowSize, 12));
  assert.equal((await pair.until(FRAME.data, 1, 3)).payload.toString(), "ef");
  assert.equal((await pair.until(FRAME.headers, 1, 2)).flags, CLOSING);
  assert.equal(pair.connection?.streamCount, 0);
  assert.ok(pair.pieces.includes("1 closed"));
});

test("Http2Connection shares the window of the connection between streams that wait", async (context) => {
  const pair = await open(context);
  pair.client.write(setting(SETTING.initialWindowSize, 1_000_000));
  for (const id of [1, 3]) pair.client.write(frame(FRAME.headers, CLOSING, id, HEAD));
  await pair.until(FRAME.settings, 0, 3);
  await pair.untilStreams(2);
  for (const stream of pair.streams) {
    stream.respond([":status", "200"]);
    stream.write(Buffer.alloc(60_000));
    stream.end();
  }
  const total = (id: number): number =>
    pair.frames().reduce((sum, { type, id: of, payload }) => sum + (type === 0 && of === id ? payload.length : 0), 0);
  while (total(1) + total(3) < 65_535) await once(pair.client, "data");
  assert.equal(total(1) + total(3), 65_535);
  pair.client.write(frame(FRAME.windowUpdate, 0, 0, uint32(100_000)));
  while (total(1) + total(3) < 120_000) await once(pair.client, "data");
  assert.deepEqual([total(1), total(3)], [60_000, 60_000]);
});

test("Http2Connection holds a request back while its stream is paused, and grants no more of its window", async (context) => {
  const pair = await open(context);
  pair.client.write(OPEN);
  await pair.untilStreams(1);
  pair.streams[0]?.pause();
  pair.client.write(frame(FRAME.data, FLAG.endStream, 1, Buffer.alloc(900)));
  pair.client.write(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
  await pair.until(FRAME.ping);
  assert.deepEqual(pair.pieces, ["ping"]);
  pair.streams[0]?.resume();
  assert.deepEqual(pair.pieces, ["ping", "1 data 900", "1 end"]);
});

test("Http2Connection leaves when the streams that were open, or on their way, have ended", async (context) => {
  const pair = await open(context);
  pair.client.write(frame(FRAME.headers, CLOSING, 1, HEAD));
  await pair.untilStreams(1);
  pair.connection?.leave();
  const first = await pair.until(FRAME.goAway);
  assert.equal(first.payload.readUInt32BE(0), 2 ** 31 - 1);
  const { payload } = await pair.until(FRAME.ping);
  pair.client.write(frame(FRAME.headers, CLOSING, 3, HEAD));
  pair.client.write(frame(FRAME.ping, FLAG.ack, 0, payload));
  assert.equal((await pair.until(FRAME.goAway, 0, 2)).payload.readUInt32BE(0), 3);
  // Too late, which must not disturb those that were in time.
  const late = [frame(FRAME.headers, FLAG.endHeaders, 5, HEAD), frame(FRAME.data, 0, 5, Buffer.alloc(9))];
  pair.client.write(Buffer.concat([...late, frame(FRAME.ping, 0, 0, Buffer.alloc(8))]));
  await pair.until(FRAME.ping, 0, 2);
  for (const stream of pair.streams) stream.respond([":status", "200"], { ends: true });
  await pair.untilClosed();
  assert.equal(pair.frames().filter(({ type }) => type === FRAME.headers).length, 2);
  assert.equal(pair.fault, undefined);
});

test("Http2Connection closes its streams when the client is gone", async (context) => {
  const pair = await open(context);
  pair.client.write(OPEN);
  await pair.untilStreams(1);
  pair.client.destroy();
  await pair.untilClosed();
  assert.deepEqual(pair.pieces, ["1 closed"]);
  // Nobody minds what comes too late.
  pair.streams[0]?.respond([":status", "200"]);
  pair.streams[0]?.write(Buffer.alloc(10));
  pair.streams[0]?.end();
});
