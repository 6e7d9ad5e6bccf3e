import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  frame,
  MODEL_INFER,
  openSession,
  rawCall,
  STREAM_INFER,
} from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { fuzzGrpc, SIMPLE_MESSAGE } from "../support/fuzz-grpc.ts";
import { testSize } from "../support/long-tests.ts";
import { EXAMPLES, ONLY_SIMPLE } from "../support/model-repository.ts";
import { assertSound, eventually, readMetric, residentBytes } from "../support/probe-server.ts";
import { createRandom } from "../support/random.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const NUM_CALLS = testSize(1000, 5000);
const MAX_STREAMS = 100;
const CANCEL = 8;
const MAX_GROWTH_BYTES = 200 * 1024 * 1024;
const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS = { ":method": "POST", "content-type": "application/grpc", te: "trailers" };

let server: ServerProcess;
before(async () => {
  server = await startServerProcess({ repositories: [EXAMPLES], flags: ONLY_SIMPLE });
});
after(() => server.stop());

async function assertGrpcSound(): Promise<void> {
  const session = openSession(server.grpc);
  const { trailers } = await rawCall(session, {}, frame(SIMPLE_MESSAGE));
  assert.equal(trailers["grpc-status"], "0");
  session.destroy();
  await eventually(
    () => readMetric(server, "nv_inference_pending_request_count"),
    (pending) => pending === 0,
  );
  await assertSound(server);
}

test("broken calls all end and leave nothing behind", async () => {
  const session = openSession(server.grpc);
  const random = createRandom(4242);
  await fuzzGrpc(session, random, NUM_CALLS / 5, MAX_STREAMS);
  const bytesBefore = await residentBytes(server.pid);
  await fuzzGrpc(session, random, (NUM_CALLS * 4) / 5, MAX_STREAMS);
  const growth = (await residentBytes(server.pid)) - bytesBefore;
  assert.ok(growth < MAX_GROWTH_BYTES, `memory grew by ${growth} bytes`);
  session.destroy();
  await assertGrpcSound();
});

for (const path of [MODEL_INFER, STREAM_INFER]) {
  test(`two thousand calls of ${path.split("/").at(-1)} that are reset at once disturb no other connection`, async () => {
    const flood = openSession(server.grpc);
    const other = openSession(server.grpc);
    await once(flood, "connect");
    for (let sent = 0; sent < 2000 && !flood.destroyed; sent += 1) {
      const stream = flood.request({ ...HEADERS, ":path": path });
      stream.on("error", () => undefined);
      stream.close(CANCEL);
      if (sent % 50 === 0) await sleep(1);
    }
    const { trailers } = await rawCall(other, {}, frame(SIMPLE_MESSAGE));
    assert.equal(trailers["grpc-status"], "0");
    flood.destroy();
    other.destroy();
    await assertGrpcSound();
  });
}

const REMAINS: readonly [what: string, bytes: Buffer][] = [
  ["nothing", Buffer.alloc(0)],
  ["half a preface", Buffer.from(PREFACE.slice(0, 10))],
  ["a preface and no settings", Buffer.from(PREFACE)],
  ["half a frame's head", Buffer.concat([Buffer.from(PREFACE), Buffer.from("00000004", "hex")])],
  [
    "a frame of 16 MiB to come",
    Buffer.concat([Buffer.from(PREFACE), Buffer.from("000000040000000000ffffff000000000001", "hex")]),
  ],
  [
    "a frame of unknown kind",
    Buffer.concat([Buffer.from(PREFACE), Buffer.from("000000040000000000000000ff0000000001", "hex")]),
  ],
  ["rubbish", createRandom(1).bytes(3000)],
];
for (const [what, bytes] of REMAINS) {
  test(`connections that send ${what} and stay open hold up nobody`, async () => {
    const sockets = Array.from({ length: 50 }, () => {
      const socket = connect(server.grpc, "127.0.0.1");
      socket.on("error", () => undefined);
      socket.write(bytes);
      return socket;
    });
    await assertGrpcSound();
    for (const socket of sockets) socket.destroy();
    await assertGrpcSound();
  });
}
