import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import type { Logger } from "../../../observe/log.ts";
import type { HttpReply } from "../http-reply.ts";
import { HttpListener } from "./listener.ts";

const ignore = (): void => undefined;
const LOG: Logger = { info: ignore, warn: ignore, error: ignore, verbose: ignore, table: ignore };
const REPLY: HttpReply = { status: 200, contentType: undefined, headers: [], body: [] };
/** Asks once, then again on the same connection when told; `flags`: 1 = ask again, 2 = sent. */
const CLIENT = `
const { connect } = require("node:net");
const { parentPort, workerData } = require("node:worker_threads");
const flags = new Int32Array(workerData.flags);
const request = "GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n";
const socket = connect(workerData.port, "127.0.0.1");
let text = "";
let isTold = false;
socket.on("data", (data) => {
  text += data;
  if (isTold || !text.includes("\\r\\n\\r\\n")) return;
  isTold = true;
  parentPort.postMessage("answered");
  Atomics.wait(flags, 0, 0);
  text = "";
  socket.write(request, () => {
    Atomics.store(flags, 0, 2);
    Atomics.notify(flags, 0);
  });
});
socket.on("error", (error) => (text += error));
socket.on("close", () => parentPort.postMessage(text));
socket.write(request);`;

test("close() answers a request that arrived while the process stood still", { timeout: 240_000 }, async () => {
  const listener = new HttpListener({ handle: async () => REPLY }, { address: "127.0.0.1", port: 0 }, LOG);
  const { port } = await listener.listen();
  const shared = new SharedArrayBuffer(4);
  const flags = new Int32Array(shared);
  const client = new Worker(CLIENT, { eval: true, workerData: { port, flags: shared } });
  await once(client, "message");
  const closed = listener.close(undefined);
  const told = once(client, "message");
  Atomics.store(flags, 0, 1);
  Atomics.notify(flags, 0);
  Atomics.wait(flags, 0, 1);
  // Longer than the quiet time, without a turn of the event loop.
  Atomics.wait(flags, 0, 2, 600);
  const [answer] = (await told) as [string];
  assert.match(answer, /^HTTP\/1\.1 200 OK\r\n.*Connection: close\r\n/is);
  await closed;
  await client.terminate();
});
