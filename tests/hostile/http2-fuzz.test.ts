/** Frames of HTTP/2 at random, from almost right to senseless: every connection ends, nothing stays, the server goes on. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  callUnary,
  encode,
  frame as grpcFrame,
  inferRequest,
  MODEL_INFER,
  openTestBed,
  STREAM_INFER,
  type TestBed,
} from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { HeaderEncoder } from "../../server/src/protocol/http2/header-encoder.ts";
import { testSize } from "../support/long-tests.ts";
import { createRandom, type Random } from "../support/random.ts";

const SEED = 7541;
const NUM_CONNECTIONS = testSize(300, 1500);
const WIDTH = 25;
const MAX_FRAMES = 30;
const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
const SETTINGS = frame(4, 0, 0, Buffer.alloc(0));
const MESSAGE = grpcFrame(encode("inference.ModelInferRequest", inferRequest()));

let bed: TestBed;
before(async () => {
  bed = await openTestBed();
});
after(() => bed.close());

function frame(type: number, flags: number, id: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(id, 5);
  return Buffer.concat([head, payload]);
}

function requestHead(random: Random): Buffer {
  const path = random.pick([MODEL_INFER, STREAM_INFER, "/nope"]);
  const fields = [":method", "POST", ":scheme", "http", ":path", path, "content-type", "application/grpc"];
  return new HeaderEncoder().encode(fields, false);
}

/** A frame that makes sense at its place, more often than not. */
function goodFrame(random: Random, id: number): Buffer {
  switch (random.below(8)) {
    case 0:
    case 1:
    case 2:
      return frame(1, random.pick([4, 5]), id, requestHead(random));
    case 3:
    case 4:
      return frame(0, random.below(2), id, random.pick([MESSAGE, MESSAGE.subarray(0, 20), Buffer.alloc(0)]));
    case 5:
      return frame(8, 0, random.pick([0, id]), Buffer.from([0, 0, random.below(256), 1]));
    case 6:
      return frame(3, 0, id, Buffer.from([0, 0, 0, 8]));
    default:
      return frame(6, random.below(2), 0, random.bytes(8));
  }
}

function senselessFrame(random: Random): Buffer {
  return frame(random.below(12), random.below(256), random.below(40), random.bytes(random.below(60)));
}

function flipped(random: Random, bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes);
  copy[random.below(copy.length)] = random.below(256);
  return copy;
}

function conversation(random: Random): Buffer {
  const frames: Buffer[] = [];
  let id = 1;
  for (let left = random.below(MAX_FRAMES); left > 0; left--) {
    const good = goodFrame(random, random.next() < 0.7 ? id : random.below(9));
    if (random.next() < 0.3) id += 2;
    frames.push(random.next() < 0.9 ? good : random.next() < 0.5 ? flipped(random, good) : senselessFrame(random));
  }
  return Buffer.concat([PREFACE, SETTINGS, ...frames]);
}

/** Writes in two parts, cut anywhere, and leaves: at once, after a while, or when it is told to. */
async function converse(random: Random): Promise<void> {
  const bytes = conversation(random);
  const cut = random.below(bytes.length);
  const how = random.below(3);
  const waitMs = random.below(10);
  const socket = connect({ port: bed.port, host: "127.0.0.1", noDelay: true });
  socket.on("error", () => socket.destroy());
  socket.resume();
  const closed = once(socket, "close");
  socket.write(bytes.subarray(0, cut));
  await sleep(waitMs);
  socket.write(bytes.subarray(cut));
  if (how === 0) socket.destroy();
  else socket.end();
  await closed;
}

test(`${NUM_CONNECTIONS} connections of frames at random all end and leave nothing behind`, async () => {
  const random = createRandom(SEED);
  let started = 0;
  const lane = async (): Promise<void> => {
    while (started++ < NUM_CONNECTIONS) await converse(createRandom(random.below(2 ** 32)));
  };
  await Promise.all(Array.from({ length: WIDTH }, lane));
  for (let k = 0; k < 500 && bed.frontend.connectionCount + bed.frontend.callCount > 0; k++) await sleep(10);
  assert.equal(bed.frontend.connectionCount, 0);
  assert.equal(bed.frontend.callCount, 0);
  assert.deepEqual(bed.log.errors, []);
  assert.deepEqual(await callUnary(bed.client, "ServerLive", {}), { live: true });
});
