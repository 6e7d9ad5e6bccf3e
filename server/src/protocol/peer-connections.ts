/**
 * Open connections of all listeners, by peer address: descriptors are few, and one peer must not use up those of others (RFC 9113,
 * 10.5; CWE-770). Knows no protocol: front ends say what a connection is doing, and are asked only where one has to go.
 */
import { readFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import type { Server, Socket } from "node:net";
import { MAX_CONNECTIONS, MAX_PEER_WAITING_CONNECTIONS } from "../core/limits.ts";

/** "waiting": no request has come whole; "idle": all have their answers; "busy": at least one is being answered. */
export type Activity = "waiting" | "idle" | "busy";

export type PeerSocket = Pick<Socket, "remoteAddress" | "remotePort" | "destroy"> & {
  once(event: "close", listener: () => void): unknown;
};

export interface PeerLimits {
  readonly maxConnections: number;
  readonly maxWaiting: number;
  /** A request may be on its way: younger connections are not closed for waiting. */
  readonly minWaitingMs: number;
}

const MIN_WAITING_MS = 5000;
/** Share of the process's descriptors; the rest is for models, their files and their processes. */
const DESCRIPTOR_SHARE = 0.75;
/** Looking at all connections of a peer takes a while: not at each new one. */
const SCAN_INTERVAL_MS = 1000;
/** For systems that do not tell. */
const USUAL_DESCRIPTORS = 1024;

interface Entry {
  readonly socket: PeerSocket;
  readonly sinceMs: number;
  activity: () => Activity;
}

interface Peer {
  /** Oldest first. */
  readonly entries: Set<Entry>;
  nextScanMs: number;
}

export class PeerConnections {
  readonly #limits: PeerLimits;
  readonly #now: () => number;
  readonly #peers = new Map<string, Peer>();
  /** By address and port: over TLS, front ends know another socket of the same connection. */
  readonly #entries = new Map<string, Entry>();
  #count = 0;

  constructor(limits: PeerLimits = defaultLimits(), now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  get count(): number {
    return this.#count;
  }

  /** Counts the connections that a listener accepts from now on. */
  watch(server: Server): void {
    server.prependListener("connection", (socket: Socket) => this.add(socket));
  }

  /** Closes what exceeds the limits: this connection, or others that wait. */
  add(socket: PeerSocket): void {
    const name = peerOf(socket.remoteAddress);
    const peer = this.#peers.get(name) ?? { entries: new Set(), nextScanMs: 0 };
    if (this.#count >= this.#limits.maxConnections && !this.#makeRoom(peer)) {
      socket.destroy();
      return;
    }
    this.#peers.set(name, peer);
    const entry: Entry = { socket, sinceMs: this.#now(), activity: () => "waiting" };
    const client = clientOf(socket);
    peer.entries.add(entry);
    this.#entries.set(client, entry);
    this.#count += 1;
    socket.once("close", () => {
      this.#remove(name, peer, entry);
      if (this.#entries.get(client) === entry) this.#entries.delete(client);
    });
    if (peer.entries.size > this.#limits.maxWaiting) this.#closeWaiting(peer);
  }

  /** Says how to find out what a connection is doing. */
  describe(socket: PeerSocket, activity: () => Activity): void {
    const entry = this.#entries.get(clientOf(socket));
    if (entry !== undefined) entry.activity = activity;
  }

  #remove(name: string, peer: Peer, entry: Entry): void {
    if (!peer.entries.delete(entry)) return;
    this.#count -= 1;
    if (peer.entries.size === 0) this.#peers.delete(name);
  }

  /** Closes the oldest connection without work of the peer that has the most. @returns whether there was one */
  #makeRoom(newcomer: Peer): boolean {
    let greediest = newcomer;
    for (const peer of this.#peers.values()) if (peer.entries.size > greediest.entries.size) greediest = peer;
    for (const entry of greediest.entries) {
      if (entry.activity() === "busy") continue;
      this.#drop(greediest, entry);
      return true;
    }
    return false;
  }

  /** The oldest go first, as many as there are too many. */
  #closeWaiting(peer: Peer): void {
    const nowMs = this.#now();
    if (nowMs < peer.nextScanMs) return;
    peer.nextScanMs = nowMs + Math.min(SCAN_INTERVAL_MS, this.#limits.minWaitingMs);
    const waiting = [...peer.entries].filter(({ activity }) => activity() === "waiting");
    for (const entry of waiting.slice(0, Math.max(0, waiting.length - this.#limits.maxWaiting)))
      if (nowMs - entry.sinceMs >= this.#limits.minWaitingMs) this.#drop(peer, entry);
  }

  /** Counts as gone at once; "close" comes later. */
  #drop(peer: Peer, entry: Entry): void {
    this.#remove(peerOf(entry.socket.remoteAddress), peer, entry);
    entry.socket.destroy();
  }
}

/** Activity of a connection of HTTP/1.1. `latest`: the response to its latest request. */
export function httpActivity(latest: ServerResponse | undefined): Activity {
  if (latest === undefined || !latest.req.complete) return "waiting";
  return latest.destroyed || latest.writableFinished ? "idle" : "busy";
}

/** Clients on sockets of files are one peer; an IPv6 peer has a whole network of 64 bits (RFC 4291, 2.5.4). */
export function peerOf(address: string | undefined): string {
  if (address === undefined) return "local";
  const mapped = /^::ffff:([0-9.]+)$/i.exec(address)?.[1];
  if (mapped !== undefined || !address.includes(":")) return mapped ?? address;
  const [head = "", tail] = address.split("::");
  const groups = head === "" ? [] : head.split(":");
  const ends = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - groups.length - ends.length);
  return [...groups, ...Array.from({ length: zeros }, () => "0"), ...ends].slice(0, 4).join(":");
}

function clientOf({ remoteAddress, remotePort }: PeerSocket): string {
  return `${remoteAddress} ${remotePort}`;
}

function defaultLimits(): PeerLimits {
  const maxConnections = Math.min(MAX_CONNECTIONS, Math.floor(descriptorLimit() * DESCRIPTOR_SHARE));
  return { maxConnections, maxWaiting: MAX_PEER_WAITING_CONNECTIONS, minWaitingMs: MIN_WAITING_MS };
}

/** The soft limit, which Node raises to the hard one when it starts (proc(5), /proc/pid/limits). */
function descriptorLimit(): number {
  try {
    const found = /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1"))?.[1];
    return found === undefined ? Number.POSITIVE_INFINITY : Number(found);
  } catch {
    return USUAL_DESCRIPTORS;
  }
}
