/**
 * Opens a listening socket at an address of the command line: TCP, or a path after "unix:" (gRPC Name Resolution,
 * https://github.com/grpc/grpc/blob/master/doc/naming.md).
 */
import { lstatSync, unlinkSync } from "node:fs";
import { type AddressInfo, createConnection, type ListenOptions, type Server } from "node:net";
import process from "node:process";
import type { PeerConnections } from "./peer-connections.ts";

export interface BindOptions {
  /** A host, or `unix:` and the path of a socket. */
  readonly address: string;
  /** 0 = any free port. Ignored for a path. */
  readonly port: number;
  /** Other processes may listen at the same port; the system shares connections out. */
  readonly reusePort?: boolean;
  /** Counts the connections; absent: they have no limit. */
  readonly peers?: PeerConnections | undefined;
}

export interface BoundAddress {
  readonly address: string;
  /** 0 for a path. */
  readonly port: number;
}

const UNIX = "unix:";
/** The first release of Node that knows how, by major. */
const REUSE_SINCE: ReadonlyMap<number, number> = new Map([
  [22, 12],
  [23, 1],
]);

/** The path of a socket; undefined for a host. */
export function unixPath(address: string): string | undefined {
  return address.startsWith(UNIX) ? address.slice(UNIX.length) : undefined;
}

/** Whether this release of Node, or the given one, can share a port. */
export function canReusePort(version: string = process.versions.node): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const since = REUSE_SINCE.get(major);
  return since === undefined ? major > 23 : minor >= since;
}

/** @throws the error of the socket, e.g. EADDRINUSE */
export async function bind(server: Server, options: BindOptions): Promise<BoundAddress> {
  const path = unixPath(options.address);
  options.peers?.watch(server);
  if (path !== undefined) await removeDeadSocket(path);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(listenOptions(options, path), () => {
      server.off("error", reject);
      resolve();
    });
  });
  if (path !== undefined) return { address: options.address, port: 0 };
  const bound = server.address() as AddressInfo; // listening on a port, not on a path
  return { address: bound.address, port: bound.port };
}

function listenOptions({ address, port, reusePort = false }: BindOptions, path: string | undefined): ListenOptions {
  if (path !== undefined) return { path };
  const place = { host: address, port };
  return reusePort && canReusePort() ? Object.assign(place, { reusePort }) : place;
}

/** A server that was killed leaves its socket behind; one that lives is left alone, and listening then fails. */
async function removeDeadSocket(path: string): Promise<void> {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSocket() !== true) return;
  const isDead = await new Promise<boolean>((resolve) => {
    const probe = createConnection(path);
    probe.once("connect", () => {
      probe.destroy();
      resolve(false);
    });
    probe.once("error", (error: NodeJS.ErrnoException) => resolve(error.code === "ECONNREFUSED"));
  });
  if (isDead) unlinkSync(path);
}
