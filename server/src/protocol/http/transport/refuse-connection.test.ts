import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { refuseConnection } from "./refuse-connection.ts";

test("a refused client that never closes its side keeps no descriptor", async () => {
  const server = createServer({ allowHalfOpen: true });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const accepted = once(server, "connection");
  const client = connect({ port: (server.address() as AddressInfo).port, host: "127.0.0.1", allowHalfOpen: true });
  client.on("error", () => client.destroy());
  const [socket] = (await accepted) as [Socket];
  socket.resume();
  client.resume();
  refuseConnection(Object.assign(new Error("garbage"), { code: "HPE_HEADER_OVERFLOW" }), socket, undefined);
  await once(socket, "close");
  assert.equal(socket.destroyed, true);
  client.destroy();
  server.close();
});
