import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { type TestContext, test } from "node:test";
import { childrenOf, isRunning } from "../support/child-processes.ts";
import { sendUntilTold, type Tally } from "../support/drain-load.ts";
import { KeepAliveClient } from "../support/hostile-http.ts";
import { openStream } from "../support/llm-clients.ts";
import { EXAMPLES, ONLY_SIMPLE, SIMPLE_AND_PIPELINE } from "../support/model-repository.ts";
import { assertSound, eventually } from "../support/probe-server.ts";
import { freePorts, SERVER_BIN, type ServerProcess, startServerProcess } from "../support/server-process.ts";

const ENGINE_HOST = "engine-host";
const NUM_CLIENTS = 50;
/** No models: what ends here are connections. */
const EMPTY = mkdtempSync(join(tmpdir(), "nereid-empty-"));

async function start(t: TestContext, ...flags: readonly string[]): Promise<ServerProcess> {
  const server = await startServerProcess({ repositories: [EXAMPLES], flags });
  t.after(() => server.kill());
  return server;
}

function exited(server: ServerProcess): Promise<number | null | undefined> {
  return eventually(
    () => Promise.resolve(server.exitCode()),
    (code) => code !== undefined,
  );
}

test("SIGTERM under load: everything that was sent is answered, exit code 0", async (t) => {
  const server = await start(t, ...SIMPLE_AND_PIPELINE);
  using client = new KeepAliveClient(server.http, NUM_CLIENTS);
  const tally: Tally = { answered: 0, lost: [] };
  const clients = Promise.all(Array.from({ length: NUM_CLIENTS }, () => sendUntilTold(client, tally)));
  const answeredBefore = await eventually(
    () => Promise.resolve(tally.answered),
    (answered) => answered > 0,
  );
  process.kill(server.pid, "SIGTERM");
  await clients;
  assert.ok(answeredBefore > 0);
  assert.deepEqual(tally.lost, []);
  assert.equal(await exited(server), 0, server.log());
});

test("SIGTERM lets a streamed answer come to its end", async (t) => {
  // On a busy machine the streams take longer than the 30 seconds of the default, at which the server rightly cuts them.
  const server = await start(t, "--exit-timeout-secs=300", ...SIMPLE_AND_PIPELINE);
  const [host = -1] = await childrenOf(server.pid, ENGINE_HOST);
  const streams = [1, 2, 3].map(() => openStream(server.http, 200));
  await eventually(
    () => Promise.resolve(streams.map((stream) => stream.received())),
    (counts) => counts.every((count) => count > 2),
  );
  process.kill(server.pid, "SIGTERM");
  for (const { outcome } of streams) {
    const { status, events, isCut } = await outcome;
    assert.deepEqual([status, isCut], [200, false], server.log().slice(-6000));
    assert.ok(events.length > 150 && events.every((event) => !event.includes('"error"')), `${events.length} events`);
  }
  assert.equal(await exited(server), 0, server.log());
  assert.equal(await isRunning(host), false);
  // In the words of Triton, which operators look for.
  const steps = [
    /Timeout 300: Found [3-9] HTTP service connections/,
    /Waiting for in-flight requests to complete/,
    /Timeout 300: Found [1-9]\d* model versions that have in-flight inferences/,
    /Model '\w+' \(version 1\) has 3 in-flight inferences/,
    /All models are stopped, unloading models/,
    /Timeout \d+: Found [1-9]\d* live models and 0 in-flight non-inference requests/,
  ];
  const places = steps.map((step) => server.log().search(step));
  assert.deepEqual(
    places,
    [...places].sort((one, other) => one - other),
    `${places}`,
  );
  assert.ok(!places.includes(-1), `${places} in ${server.log().slice(-6000)}`);
});

test("a second SIGTERM does not wait for streams", async (t) => {
  const server = await start(t, ...SIMPLE_AND_PIPELINE);
  const [host = -1] = await childrenOf(server.pid, ENGINE_HOST);
  const stream = openStream(server.http, 1500);
  await eventually(
    () => Promise.resolve(stream.received()),
    (count) => count > 2,
  );
  process.kill(server.pid, "SIGTERM");
  await eventually(
    () => Promise.resolve(server.log()),
    (log) => log.includes("Waiting for in-flight requests"),
  );
  process.kill(server.pid, "SIGTERM");
  const { events } = await stream.outcome;
  assert.ok(events.length < 1500, `${events.length} events`);
  await exited(server);
  assert.match(server.log(), /Signal \(15\) received/);
  assert.equal(await isRunning(host), false);
});

test("an exit timeout of one second ends a server whose stream goes on", async (t) => {
  const server = await start(t, "--exit-timeout-secs=1", ...SIMPLE_AND_PIPELINE);
  const stream = openStream(server.http, 1900);
  await eventually(
    () => Promise.resolve(stream.received()),
    (count) => count > 2,
  );
  process.kill(server.pid, "SIGTERM");
  await stream.outcome;
  await exited(server);
});

test("--drain-delay-secs: not ready at once, and new clients are served until the delay is over", async (t) => {
  const server = await start(t, "--drain-delay-secs=6", ...ONLY_SIMPLE);
  process.kill(server.pid, "SIGTERM");
  await eventually(
    () => fetch(`${server.baseUrl}/v2/health/ready`).then(({ status }) => status),
    (status) => status === 503,
  );
  await assertSound(server);
  assert.equal(await exited(server), 0, server.log());
});

test("a second SIGTERM does not wait for the drain delay", async (t) => {
  const server = await start(t, "--drain-delay-secs=300", ...ONLY_SIMPLE);
  process.kill(server.pid, "SIGTERM");
  await eventually(
    () => Promise.resolve(server.log()),
    (log) => log.includes("serving on for 300 s"),
  );
  process.kill(server.pid, "SIGTERM");
  await exited(server);
});

test("SIGTERM while models load ends the server and every process that it started", async (t) => {
  const { http, grpc, metrics } = await freePorts();
  const ports = [`--http-port=${http}`, `--grpc-port=${grpc}`, `--metrics-port=${metrics}`];
  const flags = ["--http-address=127.0.0.1", "--grpc-address=127.0.0.1", "--metrics-address=127.0.0.1"];
  const args = [SERVER_BIN, `--model-repository=${EXAMPLES}`, ...ports, ...flags];
  const child = spawn(process.execPath, args, { stdio: "ignore" });
  t.after(() => child.kill("SIGKILL"));
  const hosts = await eventually(
    () => childrenOf(child.pid ?? -1, ENGINE_HOST),
    (found) => found.length > 0,
  );
  const end = once(child, "exit");
  child.kill("SIGTERM");
  await end;
  for (const host of hosts) {
    await eventually(
      () => isRunning(host),
      (running) => !running,
    );
  }
});

for (const { name, flags, ports } of [
  { name: "of each protocol", flags: [], ports: ["http", "grpc", "metrics"] as const },
  { name: "of all protocols", flags: ["--one-port=true"], ports: ["http"] as const },
]) {
  test(`SIGTERM does not wait for connections to a port ${name} that have not said a word`, async (t) => {
    const server = await startServerProcess({ repositories: [EMPTY], flags });
    t.after(() => server.kill());
    const sockets = ports.map((port) => connect(server[port], "127.0.0.1"));
    await Promise.all(sockets.map((socket) => once(socket, "connect")));
    for (const socket of sockets) socket.on("error", () => undefined); // a reset is an end too
    // The server has them all once it answers on a later one.
    await fetch(`${server.baseUrl}/v2/health/live`);
    process.kill(server.pid, "SIGTERM");
    const code = await eventually(
      () => Promise.resolve(server.exitCode()),
      (seen) => seen !== undefined,
    );
    assert.equal(code, 0, server.log());
    for (const socket of sockets) socket.destroy();
  });
}
