/** Questions to a server that runs with `preload.ts`: memory after a collection, delays of its event loop, heap snapshots. */
import { connect } from "node:net";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { SERVER_BIN } from "../support/server-process.ts";

export interface MemoryUse {
  readonly residentBytes: number;
  readonly heapTotalBytes: number;
  readonly heapBytes: number;
  readonly externalBytes: number;
  readonly arrayBufferBytes: number;
}

export interface LoopDelay {
  /** By the clock: on a busy machine it counts the time that others ran. */
  readonly longestMs: number;
  readonly p99Ms: number;
  /** CPU time of the thread between two turns, at most. */
  readonly longestCpuMs: number;
}

export interface InsideServer {
  /** Program and first arguments, for `startServerProcess` or `spawn`. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  memory(): Promise<MemoryUse>;
  /** Starts to measure the loop, afresh. */
  watch(): Promise<void>;
  delay(): Promise<LoopDelay>;
  snapshot(file: string): Promise<void>;
}

/** `folder` gets the socket and the built preload; it must be the same for a server that already runs. */
export async function insideServer(folder: string): Promise<InsideServer> {
  const preload = join(folder, "preload.mjs");
  const socketPath = join(folder, "inside.sock");
  await build({
    entryPoints: [fileURLToPath(new URL("preload.ts", import.meta.url))],
    outfile: preload,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
  });
  return {
    command: [process.execPath, `--import=${preload}`, SERVER_BIN],
    // As in server/bin/start.cjs, which sets it too late for a process whose preload has read a file.
    env: { NEREID_TEST_INSIDE: socketPath, UV_THREADPOOL_SIZE: `${Math.max(8, 2 * availableParallelism() + 4)}` },
    memory: async () => (await ask(socketPath, "memory")) as MemoryUse,
    watch: async () => void (await ask(socketPath, "watch")),
    delay: async () => (await ask(socketPath, "delay")) as LoopDelay,
    snapshot: async (file) => void (await ask(socketPath, "snapshot", file)),
  };
}

/** @throws the error of the socket when no such server runs */
function ask(socketPath: string, question: string, argument = ""): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = connect(socketPath);
    socket.setEncoding("utf8");
    socket.on("error", reject);
    socket.on("close", () => reject(new Error(`the server ended without an answer to "${question}"`)));
    socket.on("data", (chunk: string) => {
      text += chunk;
      if (!text.endsWith("\n")) return;
      resolve(JSON.parse(text));
      socket.destroy();
    });
    socket.write(`${JSON.stringify({ ask: question, argument })}\n`);
  });
}
