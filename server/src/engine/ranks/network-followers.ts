/** Ranks in other processes, on this machine or others, as their leader sees them: they connect, and get what they do. */
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import type { RankNetwork } from "../engine-spec.ts";
import type { FrameReader } from "../host/frame.ts";
import type { RankTask } from "./follow.ts";
import type { Follower } from "./follower.ts";
import {
  joinFrame,
  onFrames,
  plainFrame,
  RANK_FRAMES,
  RANK_PROTOCOL,
  stepFrame,
  textFrame,
} from "./network-messages.ts";

const CLOSE_TIMEOUT_MS = 10_000;

/**
 * Waits for ranks 1 to `numRanks` - 1, then stops listening. @throws Error naming the ranks that did not connect in
 * time
 */
export async function awaitRanks(
  { address, port, timeoutMs }: RankNetwork,
  numRanks: number,
  task: (rank: number) => RankTask,
): Promise<readonly Follower[]> {
  const found = new Map<number, NetworkFollower>();
  const server = createServer();
  server.listen(port, address);
  await once(server, "listening").catch((error: Error) => {
    throw new Error(`MASTER_ADDR ${address}, MASTER_PORT ${port}: cannot listen there: ${error.message}`);
  });
  try {
    await collect(server, numRanks, found, task, timeoutMs);
  } catch (error) {
    for (const follower of found.values()) void follower.close();
    throw error;
  } finally {
    server.close();
  }
  return [...found.values()].sort((a, b) => a.rank - b.rank);
}

function collect(
  server: Server,
  numRanks: number,
  found: Map<number, NetworkFollower>,
  task: (rank: number) => RankTask,
  timeoutMs: number,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      const missing = Array.from({ length: numRanks - 1 }, (_, i) => i + 1).filter((rank) => !found.has(rank));
      reject(
        new Error(
          `ranks ${missing.join(", ")} of ${numRanks} did not connect within ${timeoutMs / 1000} s: are they running?`,
        ),
      );
    }, timeoutMs);
    server.on("connection", (socket) => {
      welcome(socket, numRanks, (rank) => {
        if (found.has(rank)) return `rank ${rank} is here already`;
        found.set(rank, new NetworkFollower(socket, task(rank)));
        if (found.size === numRanks - 1) {
          clearTimeout(timer);
          resolve();
        }
        return undefined;
      });
    });
  });
}

/** `accept` gives the reason for which it does not. */
function welcome(socket: Socket, numRanks: number, accept: (rank: number) => string | undefined): void {
  socket.on("error", () => socket.destroy());
  let isKnown = false;
  onFrames(socket, (frame) => {
    if (isKnown) {
      socket.emit("frame", frame);
      return;
    }
    isKnown = true;
    const refusal = readHello(frame, numRanks, accept);
    if (refusal !== undefined) socket.end(textFrame(RANK_FRAMES.failed, refusal));
  });
}

function readHello(
  frame: FrameReader,
  numRanks: number,
  accept: (rank: number) => string | undefined,
): string | undefined {
  if (frame.kind !== RANK_FRAMES.hello) return "not a rank of Nereid";
  const protocol = frame.int();
  if (protocol !== RANK_PROTOCOL)
    return `protocol ${protocol}, expected ${RANK_PROTOCOL}: run the same release everywhere`;
  const rank = frame.int();
  const worldSize = frame.int();
  if (worldSize !== numRanks) return `WORLD_SIZE is ${worldSize}, and ${numRanks} with the leader`;
  if (rank < 1 || rank >= numRanks) return `rank ${rank}, expected 1 to ${numRanks - 1}`;
  return accept(rank);
}

class NetworkFollower implements Follower {
  readonly rank: number;
  readonly opened: Promise<void>;
  readonly ready: Promise<void>;
  readonly failed: Promise<never>;
  readonly #socket: Socket;
  #isClosing = false;

  constructor(socket: Socket, task: RankTask) {
    this.rank = task.rank;
    this.#socket = socket;
    this.opened = this.#told(RANK_FRAMES.opened);
    this.ready = this.#told(RANK_FRAMES.ready);
    this.failed = new Promise((_, reject) => {
      const fail = (why: string): void => reject(new Error(`rank ${task.rank}: ${why}`));
      socket.on("frame", (frame: FrameReader) => {
        if (frame.kind === RANK_FRAMES.failed) fail(frame.text());
      });
      socket.once("close", () => {
        if (!this.#isClosing) fail("its connection ended");
      });
    });
    this.failed.catch(() => undefined);
    socket.write(textFrame(RANK_FRAMES.task, JSON.stringify(task)));
  }

  join(ids: readonly Uint8Array[]): void {
    this.#socket.write(joinFrame(ids));
  }

  send(words: Int32Array): void {
    this.#socket.write(stepFrame(words));
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    if (this.#socket.destroyed) return;
    this.#socket.end(plainFrame(RANK_FRAMES.close));
    const timer = setTimeout(() => this.#socket.destroy(), CLOSE_TIMEOUT_MS);
    await new Promise<void>((resolve) => this.#socket.once("close", () => resolve()));
    clearTimeout(timer);
  }

  #told(kind: number): Promise<void> {
    return new Promise((resolve) => {
      this.#socket.on("frame", (frame: FrameReader) => {
        if (frame.kind === kind) resolve();
      });
    });
  }
}
