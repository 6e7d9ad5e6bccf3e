/** Limits of connections: they have no answer, and are closed. */
import type { Socket } from "node:net";
import { type Activity, PeerConnections } from "../../server/src/protocol/peer-connections.ts";
import { type LimitRow, Refused } from "./limit-row.ts";

/** Opens so many connections of one peer. @throws Refused when one is closed */
function openConnections(
  count: number,
  activity: Activity,
  limits: { maxConnections: number; maxWaiting: number },
): void {
  const peers = new PeerConnections({ ...limits, minWaitingMs: 0 }, () => 1);
  for (let remotePort = 1; remotePort <= count; remotePort += 1) {
    const destroy = (): Socket => {
      throw new Refused("closed", `connection ${remotePort}`);
    };
    const socket = { remoteAddress: "192.0.2.1", remotePort, destroy, once: () => undefined };
    peers.add(socket);
    peers.describe(socket, () => activity);
  }
}

const MANY = 1_000_000;

export const CONNECTION_ROWS: readonly LimitRow[] = [
  {
    name: "MAX_CONNECTIONS",
    value: 65_536,
    run: (count) => openConnections(count, "busy", { maxConnections: 65_536, maxWaiting: MANY }),
    status: "closed",
    says: /^connection 65537$/,
  },
  {
    name: "MAX_PEER_WAITING_CONNECTIONS",
    value: 1024,
    run: (count) => openConnections(count, "waiting", { maxConnections: MANY, maxWaiting: 1024 }),
    status: "closed",
    says: /^connection 1$/,
  },
];
