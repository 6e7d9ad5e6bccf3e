/** Closes a Node HTTP server whose requests are short (connection persistence: RFC 9112, 9.3). */
import type { Server } from "node:http";

export interface CloseOptions {
  /** After this time the connections that are left are cut. Without it they may take as long as they need. */
  readonly graceMs?: number;
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
