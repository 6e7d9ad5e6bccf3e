import assert from "node:assert/strict";
import { test } from "node:test";
import { FLAG, FRAME, HTTP2_ERROR, SETTING } from "./codes.ts";
import { CLOSING, frame, HEAD, open, repeat, setting } from "./connection.test-support.ts";
import { uint32 } from "./frame-rules.ts";

test("Http2Connection takes any number of requests whose end is an empty frame of data", async (context) => {
  const pair = await open(context);
  const count = 1100;
  for (let i = 0; i < count; i++) {
    const id = 2 * i + 1;
    pair.client.write(Buffer.concat([frame(FRAME.headers, FLAG.endHeaders, id, HEAD), frame(0, FLAG.endStream, id)]));
    while (pair.streams.length <= i) await new Promise((resolve) => setImmediate(resolve));
    pair.streams[i]?.respond([":status", "204"], { ends: true });
  }
  await pair.until(FRAME.headers, 2 * count - 1);
  assert.equal(pair.isClosed, false);
});

test("Http2Connection expels a client that widens windows byte by byte", async (context) => {
  const pair = await open(context);
  pair.client.write(setting(SETTING.initialWindowSize, 0));
  pair.client.write(frame(FRAME.headers, CLOSING, 1, HEAD));
  await pair.untilStreams(1);
  pair.streams[0]?.respond([":status", "200"]);
  pair.streams[0]?.write(Buffer.alloc(10_000));
  pair.streams[0]?.send();
  pair.client.write(repeat(frame(FRAME.windowUpdate, 0, 1, uint32(1)), 1001));
  assert.equal((await pair.until(FRAME.goAway)).payload.readUInt32BE(4), HTTP2_ERROR.enhanceYourCalm);
});

for (const [what, bytes] of [
  ["asks for acks", repeat(frame(FRAME.ping, 0, 0, Buffer.alloc(8)), 1000)],
  ["opens streams", frame(FRAME.headers, CLOSING, 1, HEAD)],
] as const) {
  test(`Http2Connection lets go of a client that ${what} and never reads`, async (context) => {
    const pair = await open(context);
    await pair.until(FRAME.settings, 0, 2);
    pair.client.pause();
    // As if the system took nothing: a megabyte and more of its buffers would have to fill first.
    Object.defineProperty(pair.serverSocket, "writableLength", { get: () => 5 * 1024 * 1024 });
    pair.client.write(bytes);
    while (pair.fault === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.match(pair.fault.message, /does not read/);
  });
}
