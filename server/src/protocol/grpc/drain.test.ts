import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Metadata, status } from "@grpc/grpc-js";
import { DEFAULT_GRPC_KEEPALIVE } from "./options.ts";
import { DRAINING } from "./status.ts";
import {
  callUnary,
  decode,
  encode,
  frame,
  identity,
  inferRequest,
  openSession,
  openTestBed,
  rawCall,
  STREAM_INFER,
} from "./test-peer.test-support.ts";

const GOOD = frame(encode("inference.ModelInferRequest", inferRequest()));

test("close() lets calls in flight end and refuses new ones on open connections", async () => {
  const bed = await openTestBed();
  const session = openSession(bed.port);
  const late = encode("inference.ModelInferRequest", inferRequest({ model_name: "late" }));
  const inFlight = rawCall(session, {}, frame(late));
  const open = rawCall(session, { ":path": STREAM_INFER }, GOOD, false);
  for (let k = 0; k < 100 && bed.server.seen.length < 2; k++) await sleep(5);
  const closed = bed.frontend.close({ graceMs: 300 });
  assert.equal((await rawCall(session, {}, GOOD)).trailers["grpc-message"], DRAINING);
  assert.equal((await inFlight).trailers["grpc-status"], "0");
  await closed;
  assert.equal((await open).trailers["grpc-message"], DRAINING);
  assert.equal(bed.frontend.callCount, 0);
  bed.client.close();
});

test("close() refuses new requests on open streams and answers those under way", async () => {
  for (const strict of ["false", "true"]) {
    const bed = await openTestBed();
    const metadata = new Metadata();
    metadata.set("triton_grpc_error", strict);
    const stream = bed.client.makeBidiStreamRequest(STREAM_INFER, identity, identity, metadata);
    const answers: string[] = [];
    stream.on("data", (bytes: Buffer) => {
      const { error_message: error, infer_response: response } = decode("inference.ModelStreamInferResponse", bytes);
      answers.push(`${response.id}: ${error === "" ? response.model_name : error}`);
    });
    const ended = once(stream, "status");
    const send = (id: string, model_name: string): void => {
      stream.write(encode("inference.ModelInferRequest", inferRequest({ id, model_name })));
    };
    send("before", "late");
    while (bed.server.seen.length < 1) await sleep(5);
    const closed = bed.frontend.close({ graceMs: 5000 });
    for (const model of ["simple", "repeat", "none"]) send(model, model);
    stream.end();
    const [{ code }] = (await ended) as [{ code: number }];
    await closed;
    assert.equal(code, status.OK);
    const refused = ["none", "repeat", "simple"].map((id) => `${id}: ${DRAINING}`);
    assert.deepEqual(answers.sort(), ["before: late", ...refused]);
    assert.equal(bed.server.seen.length, 1);
    bed.client.close();
  }
});

test("close() ends at once when nothing is open, and the port is free again", async () => {
  const bed = await openTestBed();
  await bed.frontend.close({ graceMs: 60_000 });
  const again = await openTestBed({ port: bed.port });
  assert.equal(again.port, bed.port);
  await again.close();
  bed.client.close();
});

test("close() tells watchers of the health that the server is not serving", async () => {
  const bed = await openTestBed();
  const request = encode("grpc.health.v1.HealthCheckRequest", {});
  const stream = bed.client.makeServerStreamRequest("/grpc.health.v1.Health/Watch", identity, identity, request);
  const ended = new Promise<{ code: number }>((resolve) => stream.on("error", (error) => resolve(error as never)));
  const messages: Buffer[] = [];
  stream.on("data", (bytes: Buffer) => messages.push(bytes));
  for (let k = 0; k < 100 && messages.length === 0; k++) await sleep(5);
  await bed.frontend.close({ graceMs: 60_000 });
  assert.equal((await ended).code, status.UNAVAILABLE);
  assert.equal(messages.length, 2);
  bed.client.close();
});

test("listen() rejects when the port is taken", async () => {
  const bed = await openTestBed();
  await assert.rejects(openTestBed({ port: bed.port }), { code: "EADDRINUSE" });
  await bed.close();
});

test("a connection past its age is asked to leave and closed when its calls have ended", async () => {
  const bed = await openTestBed({ keepalive: { ...DEFAULT_GRPC_KEEPALIVE, maxConnectionAgeMs: 50 } });
  const session = openSession(bed.port);
  const goaway = new Promise((resolve) => session.on("goaway", resolve));
  const closed = new Promise((resolve) => session.on("close", resolve));
  assert.equal(await goaway, 0);
  await closed;
  await callUnary(bed.client, "ServerLive", {});
  await bed.close();
});

test("a client that said GOAWAY is closed once its calls have ended", async () => {
  const bed = await openTestBed();
  const session = openSession(bed.port);
  await rawCall(session, {}, GOOD);
  assert.equal(bed.frontend.connectionCount, 1);
  session.goaway(0);
  for (let k = 0; k < 300 && bed.frontend.connectionCount > 0; k++) await sleep(10);
  assert.equal(bed.frontend.connectionCount, 0);
  session.destroy();
  await bed.close();
});

test("the server's own pings close a connection that does not answer", async () => {
  const keepalive = { ...DEFAULT_GRPC_KEEPALIVE, timeMs: 20, timeoutMs: 50, permitWithoutCalls: true };
  const bed = await openTestBed({ keepalive });
  const { connect } = await import("node:net");
  const socket = connect(bed.port, "127.0.0.1");
  // The client's preface and empty SETTINGS, then silence.
  socket.write(
    Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])]),
  );
  socket.resume();
  await new Promise((resolve) => socket.on("close", resolve));
  for (let k = 0; k < 100 && bed.frontend.connectionCount > 0; k++) await sleep(10);
  assert.equal(bed.frontend.connectionCount, 0);
  await bed.close();
});
