import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { eventually } from "../../../tests/support/probe-server.ts";
import { FakeModelServer } from "./grpc/fake-model-server.test-support.ts";
import { createGrpcFrontend } from "./grpc/frontend.ts";
import { GRPC_TEST_OPTIONS, TestLog } from "./grpc/test-peer.test-support.ts";
import { createHttpFrontend } from "./http/frontend.ts";
import { createMetricsFrontend } from "./metrics/frontend.ts";
import { type Activity, PeerConnections, type PeerSocket, peerOf } from "./peer-connections.ts";

let nextPort = 1;

class FakeSocket implements PeerSocket {
  readonly remoteAddress: string;
  readonly remotePort = nextPort++;
  isDestroyed = false;
  readonly #onClose: (() => void)[] = [];

  constructor(remoteAddress: string) {
    this.remoteAddress = remoteAddress;
  }

  once(_event: "close", listener: () => void): void {
    this.#onClose.push(listener);
  }

  destroy(): Socket {
    this.isDestroyed = true;
    for (const listener of this.#onClose.splice(0)) listener();
    return undefined as unknown as Socket;
  }
}

function add(peers: PeerConnections, address: string, activity: Activity, count = 1): readonly FakeSocket[] {
  return Array.from({ length: count }, () => {
    const socket = new FakeSocket(address);
    peers.add(socket);
    peers.describe(socket, () => activity);
    return socket;
  });
}

const open = (sockets: readonly FakeSocket[]): number => sockets.filter(({ isDestroyed }) => !isDestroyed).length;

test("add() closes the oldest connections of a peer that wait, once they are old enough, and no others", () => {
  let nowMs = 0;
  const peers = new PeerConnections({ maxConnections: 1000, maxWaiting: 3, minWaitingMs: 5000 }, () => nowMs);
  const others = add(peers, "10.0.0.2", "waiting", 3);
  const kept = [...add(peers, "10.0.0.1", "busy", 5), ...add(peers, "10.0.0.1", "idle", 5)];
  const waiting = add(peers, "10.0.0.1", "waiting", 6);
  assert.deepEqual([open(others), open(kept), open(waiting)], [3, 10, 6]);
  nowMs = 6000;
  add(peers, "10.0.0.1", "busy");
  assert.deepEqual([open(others), open(kept)], [3, 10]);
  assert.deepEqual(
    waiting.map(({ isDestroyed }) => isDestroyed),
    // The newcomer waits too, as nobody has said otherwise yet.
    [true, true, true, true, false, false],
  );
});

test("add() makes room by the peer that has the most, and never by a connection that is being answered", () => {
  const peers = new PeerConnections({ maxConnections: 6, maxWaiting: 1000, minWaitingMs: 0 }, () => 0);
  const busy = add(peers, "10.0.0.1", "busy", 2);
  const idle = add(peers, "10.0.0.1", "idle", 3);
  const [lone] = add(peers, "10.0.0.2", "idle");
  const newcomers = ["10.0.0.3", "10.0.0.4", "10.0.0.5"].flatMap((address) => add(peers, address, "busy"));
  assert.deepEqual([open(busy), open(idle), lone?.isDestroyed, open(newcomers), peers.count], [2, 0, false, 3, 6]);
  // Two busy connections are now the most that a peer has, and none can go.
  const [refused] = add(peers, "10.0.0.6", "busy");
  assert.deepEqual([refused?.isDestroyed, open(busy), peers.count], [true, 2, 6]);
  busy[0]?.destroy();
  assert.equal(open(add(peers, "10.0.0.6", "busy")), 1);
});

test("peerOf() is the address, the network of an IPv6 address, or the machine itself", () => {
  const cases: readonly (readonly [address: string | undefined, peer: string])[] = [
    ["192.0.2.1", "192.0.2.1"],
    ["::ffff:192.0.2.1", "192.0.2.1"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2"],
    ["2001:db8::6", "2001:db8:0:0"],
    ["::1", "0:0:0:0"],
    [undefined, "local"],
  ];
  for (const [address, peer] of cases) assert.equal(peerOf(address), peer);
});

const MAX_WAITING = 4;
const HALF_HEAD = "POST /v2/models/x/infer HTTP/1.1\r\nHost: x\r\n";
const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

function frontends(t: TestContext, peers: PeerConnections): Readonly<Record<string, () => Promise<number>>> {
  const place = { address: "127.0.0.1", port: 0, peers };
  const [server, log] = [new FakeModelServer(), new TestLog()];
  const listening = async (listen: () => Promise<{ port: number }>, close: () => Promise<void>): Promise<number> => {
    const { port } = await listen();
    t.after(close);
    return port;
  };
  const http = { ...place, maxInputBytes: 1000, forwardPattern: undefined, restricted: [] };
  return {
    http: () => {
      const front = createHttpFrontend({ server, options: http, log });
      return listening(front.listen, () => front.close(0));
    },
    grpc: () => {
      const front = createGrpcFrontend({ server, options: { ...GRPC_TEST_OPTIONS, ...place }, log });
      return listening(
        () => front.listen(),
        () => front.close({ graceMs: 0 }),
      );
    },
    metrics: () => {
      const front = createMetricsFrontend({ ...place, log, render: () => "" });
      return listening(front.listen, () => front.close({ graceMs: 0 }));
    },
  };
}

for (const name of ["http", "grpc", "metrics"]) {
  for (const [kind, bytes] of Object.entries({ silent: "", half: name === "grpc" ? PREFACE : HALF_HEAD })) {
    test(`connections of one peer that stay ${kind} leave the ${name} port to others`, async (t) => {
      const peers = new PeerConnections({ maxConnections: 100, maxWaiting: MAX_WAITING, minWaitingMs: 0 });
      const port = await frontends(t, peers)[name]?.();
      let numClosed = 0;
      const hold = async (): Promise<void> => {
        const socket = connect({ port: port ?? 0, host: "127.0.0.1" });
        t.after(() => socket.destroy());
        socket.on("error", () => undefined).resume();
        socket.once("close", () => {
          numClosed += 1;
        });
        await once(socket, "connect");
        socket.write(bytes);
      };
      for (let i = 0; i < 3 * MAX_WAITING; i += 1) await hold();
      await eventually(
        async () => [numClosed, peers.count],
        ([closed = 0, count = 0]) => closed === 2 * MAX_WAITING && count === MAX_WAITING,
      );
    });
  }
}
