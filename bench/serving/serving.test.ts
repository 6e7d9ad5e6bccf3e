import assert from "node:assert/strict";
import { createServer } from "node:net";
import { test } from "node:test";
import { startHttpLoad } from "./http-load.ts";
import { parseServer } from "./servers.ts";
import { isSteady } from "./steady.ts";

test("isSteady() wants several windows that agree", () => {
  assert.equal(isSteady([]), false);
  assert.equal(isSteady([0, 0, 0, 0]), false);
  assert.equal(isSteady([100, 100, 100]), false);
  assert.equal(isSteady([100, 200, 300, 400, 500]), false);
  assert.equal(isSteady([100, 400, 410, 405, 398]), true);
  assert.equal(isSteady([400, 410, 405, 300]), false);
});

test("parseServer() reads name, address, port of gRPC and process", () => {
  const { name, host, httpPort, grpcPort, pid } = parseServer("triton,http://10.0.0.1:8000,8001,77");
  assert.deepEqual([name, host, httpPort, grpcPort, pid], ["triton", "10.0.0.1", 8000, 8001, 77]);
  assert.equal(parseServer("x,http://127.0.0.1:9000,9001").pid, undefined);
  for (const text of ["x", "x,http://h:1", "x,ftp://h:1,2", "x,http://h,2", "x,http://h:1,no", "x,http://h:1,2,me"]) {
    assert.throws(() => parseServer(text), /--server: expected NAME,http:\/\/HOST:PORT,GRPC_PORT/);
  }
});

test("a load reads whole answers of a server that sends the other header first", async () => {
  const json = '{"a":1}';
  const answer = `HTTP/1.1 200 OK\r\nInference-Header-Content-Length: ${json.length}\r\nContent-Length: ${json.length + 4}\r\n\r\n${json}\0\0\0\0`;
  const server = createServer((socket) => {
    socket.on("error", () => undefined); // the load ends its connections
    socket.on("data", () => socket.write(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  const load = startHttpLoad(port, { method: "POST", path: "/", headers: [], body: new Uint8Array(3) }, 2);
  while (load.tally.completed < 50) await new Promise((resolve) => setImmediate(resolve));
  load.stop();
  server.close();
  load.tally.expectNoFailure();
});
