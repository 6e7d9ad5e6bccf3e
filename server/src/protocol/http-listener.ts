/** Opens and closes a Node HTTP server. Shared by the front ends that speak HTTP/1.1. */
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";

export interface BoundAddress {
  readonly address: string;
  readonly port: number;
}

export interface CloseOptions {
  /** After this time the connections that are left are cut. Without it they may take as long as they need. */
  readonly graceMs?: number;
}

/** @throws the error of the socket, e.g. EADDRINUSE */
export function listen(server: Server, address: string, port: number): Promise<BoundAddress> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, address, () => {
      server.off("error", reject);
      const bound = server.address() as AddressInfo; // listening on a port, not on a path
      resolve({ address: bound.address, port: bound.port });
    });
  });
}

/** Takes no new connections, lets the busy ones finish, resolves when all are gone. May be called again to hurry. */
export function close(server: Server, { graceMs }: CloseOptions = {}): Promise<void> {
  return new Promise((resolve) => {
    const timer = graceMs === undefined ? undefined : setTimeout(() => server.closeAllConnections(), graceMs);
    server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    server.closeIdleConnections();
  });
}
