/** The leader as a rank in another process sees it: it is connected to until it is there, and then says what to do. */
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { RankNetwork } from "../engine-spec.ts";
import type { FrameReader } from "../host/frame.ts";
import type { LeaderPort, RankTask } from "./follow.ts";
import { helloFrame, onFrames, plainFrame, RANK_FRAMES, readIds, readTask, textFrame } from "./network-messages.ts";

const RETRY_MS = 500;

export interface Leader {
  readonly task: RankTask;
  readonly port: LeaderPort;
  /** Resolves when the leader is gone and had not said that nothing more comes. */
  readonly lost: Promise<void>;
  /** Tells why this rank cannot go on. */
  fail(why: string): Promise<void>;
  close(): void;
}

/** @throws Error when no leader answers in time, or the leader refuses this rank */
export async function findLeader(network: RankNetwork, rank: number, worldSize: number): Promise<Leader> {
  const socket = await connected(network);
  const inbox = new Inbox(socket);
  socket.write(helloFrame(rank, worldSize));
  const first = await inbox.next();
  if (first?.kind === RANK_FRAMES.failed) throw new Error(`the leader refuses rank ${rank}: ${first.text()}`);
  if (first?.kind !== RANK_FRAMES.task)
    throw new Error(`rank ${rank}: the leader went away before it said what to load`);
  let isOver = false;
  const port: LeaderPort = {
    opened: () => void socket.write(plainFrame(RANK_FRAMES.opened)),
    ids: async () => {
      const frame = await inbox.next();
      if (frame?.kind !== RANK_FRAMES.join) throw new Error("the leader went away before the group was formed");
      return readIds(frame);
    },
    ready: (numBlocks) => void socket.write(plainFrame(RANK_FRAMES.ready, numBlocks)),
    next: async () => {
      const frame = await inbox.next();
      if (frame?.kind === RANK_FRAMES.step) return frame.ints();
      isOver ||= frame?.kind === RANK_FRAMES.close;
      return undefined;
    },
  };
  return {
    task: readTask(first),
    port,
    lost: new Promise((resolve) => {
      socket.once("close", () => {
        if (!isOver) resolve();
      });
    }),
    fail: (why) => {
      isOver = true;
      return new Promise((resolve) => socket.end(textFrame(RANK_FRAMES.failed, why), () => resolve()));
    },
    close: () => {
      isOver = true;
      socket.end();
    },
  };
}

async function connected({ address, port, timeoutMs }: RankNetwork): Promise<Socket> {
  const deadlineMs = performance.now() + timeoutMs;
  let reason = "";
  while (performance.now() < deadlineMs) {
    const socket = connect(port, address);
    const error = await new Promise<Error | undefined>((resolve) => {
      socket.once("connect", () => resolve(undefined));
      socket.once("error", resolve);
    });
    if (error === undefined) return socket;
    reason = error.message;
    await sleep(RETRY_MS);
  }
  throw new Error(`no leader at MASTER_ADDR ${address}, MASTER_PORT ${port} within ${timeoutMs / 1000} s: ${reason}`);
}

/** Frames in their order, each given once; undefined once the connection has ended. */
class Inbox {
  readonly #frames: FrameReader[] = [];
  #isOver = false;
  #wake: () => void = () => undefined;

  constructor(socket: Socket) {
    onFrames(socket, (frame) => {
      this.#frames.push(frame);
      this.#wake();
    });
    socket.on("error", () => undefined); // "close" follows
    socket.once("close", () => {
      this.#isOver = true;
      this.#wake();
    });
  }

  async next(): Promise<FrameReader | undefined> {
    while (this.#frames.length === 0 && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#frames.shift();
  }
}
